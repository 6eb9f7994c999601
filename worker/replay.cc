// SPDX-License-Identifier: Apache-2.0
#include "worker/replay.h"

#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "core/base64.h"
#include "core/clock.h"
#include "core/json_reader.h"
#include "core/status_macros.h"
#include "worker/local_session.h"
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

absl::Status RunReplay(const std::string& file, Device& device) {
  std::ifstream in(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  FETTLE_ASSIGN_OR_RETURN(Replay replay, ReplayFromJson(nlohmann::json::parse(
                                             text, nullptr, /*allow_exceptions=*/false)));
  LocalSession session(device, SystemClock(), {});
  FETTLE_ASSIGN_OR_RETURN(replay.request.kernel.module,
                          session.LoadModule(replay.code_object, replay.symbols));
  return session.RunCase(replay.request).status();
}

}  // namespace fettle
