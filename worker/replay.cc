// SPDX-License-Identifier: Apache-2.0
#include "worker/replay.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/base64.h"
#include "core/json_reader.h"
#include "core/status_macros.h"
#include "device/case_buffers.h"
#include "device/prepared_call.h"
#include "verifier/case_inputs.h"
#include "worker/runner_protocol.h"

namespace fettle {

nlohmann::json ToJson(const Replay& replay) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [path, bytes] : replay.request.files) files[path] = Base64Encode(bytes);
  return {{"request", ToJson(replay.request, SentCases().FormOf(replay.request.bound_case))},
          {"code_object", Base64Encode(replay.code_object)},
          {"symbols", replay.symbols},
          {"files", std::move(files)}};
}

absl::StatusOr<Replay> ReplayFromJson(const nlohmann::json& json) {
  Replay replay;
  JsonReader reader(json, "replay");
  std::string code_object;
  reader.Nested("request", replay.request, [](const nlohmann::json& request) {
    ReceivedCases cases;
    return RunRequestFromJson(request, cases);
  });
  reader.Get("code_object", code_object);
  reader.Get("symbols", replay.symbols);
  const nlohmann::json& files = reader.Child("files");
  if (reader.ok() && !files.is_object()) reader.Fail("files", "must be an object");
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  FETTLE_ASSIGN_OR_RETURN(replay.code_object, Base64Decode(code_object));
  for (const auto& [path, bytes] : files.items()) {
    if (!bytes.is_string()) {
      return absl::InvalidArgumentError(fmt::format("replay.files.{}: must be base64", path));
    }
    FETTLE_ASSIGN_OR_RETURN(replay.request.files[path],
                            Base64Decode(bytes.get_ref<const std::string&>()));
  }
  return replay;
}

namespace {

// What a call must not lose before the last one has ended: memory that was freed could come back
// with contents.
struct Made {
  std::unique_ptr<DeviceModule> module;
  std::shared_ptr<const CaseInputCache::Entry> inputs;
  std::unique_ptr<CaseBuffers> buffers;
};

absl::StatusOr<Made> MakeCall(const Replay& replay, CaseInputCache& inputs, Device& device) {
  const RunRequest& request = replay.request;
  Made made;
  FETTLE_ASSIGN_OR_RETURN(made.module, device.Load(replay.code_object, replay.symbols));
  GuardOptions exact;
  exact.guard_bytes = 0;
  FETTLE_ASSIGN_OR_RETURN(
      CaseBuffers buffers,
      CaseBuffers::Allocate(device, request.bound_case, request.kernel.plan.workspace, exact));
  made.buffers = std::make_unique<CaseBuffers>(std::move(buffers));
  FETTLE_ASSIGN_OR_RETURN(
      made.inputs,
      inputs.Get(request.bound_case, {request.input_seed, request.inputs}, request.files));
  FETTLE_RETURN_IF_ERROR(made.buffers->WriteInputs(made.inputs->images));
  FETTLE_ASSIGN_OR_RETURN(PreparedCall call,
                          PreparedCall::Create(device, *made.module, request.kernel.symbols,
                                               request.kernel.plan, *made.buffers));
  FETTLE_RETURN_IF_ERROR(call.Enqueue());
  FETTLE_RETURN_IF_ERROR(device.Synchronize(request.launch_limit));
  return made;
}

}  // namespace

absl::Status RunReplays(const std::vector<std::string>& files, Device& device) {
  CaseInputCache inputs(device);
  std::vector<Made> calls;
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    FETTLE_ASSIGN_OR_RETURN(const Replay replay, ReplayFromJson(nlohmann::json::parse(
                                                     text, nullptr, /*allow_exceptions=*/false)));
    FETTLE_ASSIGN_OR_RETURN(calls.emplace_back(), MakeCall(replay, inputs, device));
  }
  return absl::OkStatus();
}

}  // namespace fettle
