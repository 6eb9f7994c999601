// SPDX-License-Identifier: Apache-2.0
#include "worker/runner_protocol.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "core/bound_json.h"
#include "core/digest.h"
#include "core/evidence.h"
#include "core/json_reader.h"
#include "core/status_macros.h"
#include "device/tensor_layout.h"
#include "profiler/duty.h"

namespace fettle {
namespace {

constexpr std::array<std::string_view, 4> kPlacements = {"guarded", "page_end", "misaligned",
                                                         "scattered"};

constexpr std::array<std::string_view, 25> kInputSets = {
    "declared",         "exact_integers", "scale_tiny",   "scale_small",
    "scale_large",      "scale_huge",     "row_scales",   "heavy_tail",
    "all_equal",        "all_zero",       "all_negative", "sorted",
    "reversed",         "ties",           "one_hot",      "checkerboard",
    "low_rank",         "offset",         "edge_values",  "large_values",
    "extreme_integers", "equal_integers", "few_integers", "sorted_integers",
    "non_finite"};

std::optional<Placement> ParsePlacement(std::string_view name) {
  return FindName<Placement>(kPlacements, name);
}

std::optional<InputSet> ParseInputs(std::string_view name) {
  return FindName<InputSet>(kInputSets, name);
}

std::string PlacementName(Placement placement) {
  return std::string(kPlacements[static_cast<std::size_t>(placement)]);
}

nlohmann::json KernelJson(const RunnableKernel& kernel) {
  return {{"module", kernel.module}, {"symbols", kernel.symbols}, {"plan", ToJson(kernel.plan)}};
}

absl::StatusOr<RunnableKernel> KernelFromJson(const nlohmann::json& json) {
  RunnableKernel kernel;
  JsonReader reader(json, "kernel");
  reader.Get("module", kernel.module);
  const nlohmann::json& symbols = reader.Child("symbols");
  if (reader.ok()) {
    if (!symbols.is_object()) reader.Fail("symbols", "must be an object");
    for (const auto& [entry, symbol] : symbols.items()) {
      if (symbol.is_string()) {
        kernel.symbols[entry] = symbol.get<std::string>();
      } else {
        reader.Fail("symbols", "must hold strings");
      }
    }
  }
  reader.Nested("plan", kernel.plan, BoundPlanFromJson);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return kernel;
}

absl::StatusOr<std::chrono::nanoseconds> CheckLimit(std::int64_t ns, const char* what) {
  const std::chrono::nanoseconds limit(ns);
  if (ns <= 0 || limit > kMaxLaunchLimit) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} ns is outside (0, {} min]", what, ns, kMaxLaunchLimit.count()));
  }
  return limit;
}

nlohmann::json FindingJson(const CheckFinding& finding) {
  return {{"kind", finding.kind},
          {"is_error", finding.is_error},
          {"message", finding.message},
          {"file", finding.file},
          {"line", finding.line}};
}

absl::StatusOr<CheckFinding> FindingFromJson(const nlohmann::json& json) {
  CheckFinding finding;
  JsonReader reader(json, "finding");
  reader.Get("kind", finding.kind);
  reader.Get("is_error", finding.is_error);
  reader.Get("message", finding.message);
  reader.Get("file", finding.file);
  reader.Get("line", finding.line);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return finding;
}

void GetText(JsonReader& reader, std::string_view key, std::optional<std::string>& out) {
  std::string text;
  if (!reader.Has(key)) return;
  reader.GetOptional(key, text);
  out = std::move(text);
}

absl::StatusOr<Target> TargetFromJson(const nlohmann::json& json) {
  Target target;
  JsonReader reader(json, "target");
  std::array<std::int64_t, 3> grid{}, block{};
  std::int64_t vendor = 0;
  reader.Get("name", target.name);
  reader.Get("vendor", vendor);
  reader.Get("wave", target.wave);
  reader.Get("lds", target.lds);
  reader.Get("lds_static", target.lds_static);
  reader.Get("cus", target.cus);
  reader.Get("max_block", target.max_block);
  reader.Get("max_grid", grid);
  reader.Get("max_block_dim", block);
  reader.Get("registers", target.registers);
  reader.Get("cache", target.cache);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  if (vendor < 0 || vendor > static_cast<int>(Vendor::kAmd)) {
    return absl::InvalidArgumentError("target.vendor: unknown value");
  }
  target.vendor = static_cast<Vendor>(vendor);
  std::copy(grid.begin(), grid.end(), target.max_grid);
  std::copy(block.begin(), block.end(), target.max_block_dim);
  return target;
}

nlohmann::json TargetJson(const Target& target) {
  return {{"name", target.name},
          {"vendor", static_cast<int>(target.vendor)},
          {"wave", target.wave},
          {"lds", target.lds},
          {"lds_static", target.lds_static},
          {"cus", target.cus},
          {"max_block", target.max_block},
          {"max_grid", target.max_grid},
          {"max_block_dim", target.max_block_dim},
          {"registers", target.registers},
          {"cache", target.cache}};
}

}  // namespace

std::string CaseName(const BoundCase& bound_case) {
  // Everything but the long lists as JSON, those by their hash.
  BoundCase light = bound_case;
  std::string lists;
  const auto take = [&lists](std::vector<std::int64_t>& list) {
    if (list.size() <= 64) return;
    lists += Sha256Hex({reinterpret_cast<const char*>(list.data()), list.size() * sizeof(list[0])});
    list.resize(1);
  };
  for (BoundDim& dim : light.dims) take(dim.values);
  for (BoundTensor& tensor : light.tensors) {
    take(tensor.fill.list);
    take(tensor.restore.rows);
  }
  return Sha256Hex(ToJson(light).dump() + lists);
}

nlohmann::json SentCases::FormOf(const BoundCase& bound_case) {
  const std::string name = CaseName(bound_case);
  if (sent_.contains(name)) return {{"name", name}};
  if (sent_.size() >= kMost) sent_.clear();
  const bool first = sent_.empty();
  sent_.insert(name);
  return {{"name", name}, {"case", ToJson(bound_case)}, {"first", first}};
}

absl::StatusOr<BoundCase> ReceivedCases::Take(const nlohmann::json& form) {
  JsonReader reader(form, "case");
  std::string name;
  reader.Get("name", name);
  if (reader.Has("case")) {
    BoundCase sent;
    bool first = false;
    reader.Nested("case", sent, BoundCaseFromJson);
    reader.Get("first", first);
    FETTLE_RETURN_IF_ERROR(reader.Finish());
    if (first || held_.size() > 2 * SentCases::kMost) held_.clear();
    return held_[name] = std::move(sent);
  }
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  const auto found = held_.find(name);
  if (found == held_.end())
    return absl::InvalidArgumentError("case: this name was not sent before");
  return found->second;
}

nlohmann::json ToJson(const RunRequest& request, nlohmann::json case_form) {
  return {{"case", std::move(case_form)},
          {"kernel", KernelJson(request.kernel)},
          {"input_seed", request.input_seed},
          {"inputs", std::string(kInputSets[static_cast<std::size_t>(request.inputs)])},
          {"flip_tensor", request.flip_tensor},
          {"flip_element", request.flip_element},
          {"output_poison", request.output_poison},
          {"workspace_poison", request.workspace_poison},
          {"placement", PlacementName(request.placement)},
          {"reuse_buffers", request.reuse_buffers},
          {"repeats", request.repeats},
          {"want_outputs", request.want_outputs},
          {"known_digests", request.known_digests},
          {"launch_limit_ns", request.launch_limit.count()},
          {"schedule", request.schedule}};
}

absl::StatusOr<RunRequest> RunRequestFromJson(const nlohmann::json& json, ReceivedCases& cases) {
  RunRequest request;
  JsonReader reader(json, "run");
  std::int64_t limit = 0;
  reader.Nested("case", request.bound_case,
                [&cases](const nlohmann::json& form) { return cases.Take(form); });
  reader.Nested("kernel", request.kernel, KernelFromJson);
  reader.Get("input_seed", request.input_seed);
  request.inputs = reader.Enum("inputs", ParseInputs, InputSet::kDeclared);
  reader.Get("flip_tensor", request.flip_tensor);
  reader.Get("flip_element", request.flip_element);
  reader.Get("output_poison", request.output_poison);
  reader.Get("workspace_poison", request.workspace_poison);
  request.placement = reader.Enum("placement", ParsePlacement, Placement::kGuarded);
  reader.Get("reuse_buffers", request.reuse_buffers);
  reader.Get("repeats", request.repeats);
  reader.Get("want_outputs", request.want_outputs);
  reader.Get("known_digests", request.known_digests);
  reader.Get("launch_limit_ns", limit);
  reader.Get("schedule", request.schedule);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  FETTLE_ASSIGN_OR_RETURN(request.launch_limit, CheckLimit(limit, "run.launch_limit_ns"));
  return request;
}

nlohmann::json ToJson(const TimeRequest& request, nlohmann::json case_form) {
  nlohmann::json json = {{"case", std::move(case_form)},
                         {"a", KernelJson(request.a)},
                         {"b", KernelJson(request.b)},
                         {"input_seed", request.input_seed},
                         {"single_seeds", request.single_seeds},
                         {"order_seed", request.order_seed},
                         {"min_blocks", request.min_blocks},
                         {"max_blocks", request.max_blocks},
                         {"pairs_per_block", request.pairs_per_block},
                         {"target_half_width", request.target_half_width},
                         {"warmup_seconds", request.warmup_seconds},
                         {"shortest_sample_ns", request.shortest_sample.count()},
                         {"idle_ns", request.idle.count()},
                         {"time_cap_ns", request.time_cap.count()},
                         {"rotation_bytes", request.rotation_bytes},
                         {"cold", request.cold},
                         {"screen_only", request.screen_only},
                         {"launch_limit_ns", request.launch_limit.count()},
                         {"want_outputs", request.want_outputs},
                         {"keep_outputs", request.keep_outputs}};
  if (request.device_cap.count() > 0) json["device_cap_ns"] = request.device_cap.count();
  if (!request.duty_ratios.empty()) {
    json["duty_ratios"] = JsonNumbers(request.duty_ratios);
    json["duty_span_ns"] = request.duty_span.count();
  }
  return json;
}

absl::StatusOr<TimeRequest> TimeRequestFromJson(const nlohmann::json& json, ReceivedCases& cases) {
  TimeRequest request;
  JsonReader reader(json, "time");
  std::int64_t limit = 0, cap = 0, device_cap = 0, span = request.duty_span.count(), shortest = 0, idle = 0;
  reader.Nested("case", request.bound_case,
                [&cases](const nlohmann::json& form) { return cases.Take(form); });
  reader.Nested("a", request.a, KernelFromJson);
  reader.Nested("b", request.b, KernelFromJson);
  reader.Get("input_seed", request.input_seed);
  reader.Get("single_seeds", request.single_seeds);
  reader.Get("order_seed", request.order_seed);
  reader.Get("min_blocks", request.min_blocks);
  reader.Get("max_blocks", request.max_blocks);
  reader.Get("pairs_per_block", request.pairs_per_block);
  reader.Get("target_half_width", request.target_half_width);
  reader.Get("warmup_seconds", request.warmup_seconds);
  reader.Get("shortest_sample_ns", shortest);
  reader.Get("idle_ns", idle);
  reader.Get("time_cap_ns", cap);
  reader.Get("rotation_bytes", request.rotation_bytes);
  reader.Get("cold", request.cold);
  reader.Get("screen_only", request.screen_only);
  reader.Get("launch_limit_ns", limit);
  reader.Get("want_outputs", request.want_outputs);
  reader.Get("keep_outputs", request.keep_outputs);
  reader.GetOptional("device_cap_ns", device_cap);
  reader.GetOptional("duty_ratios", request.duty_ratios);
  reader.GetOptional("duty_span_ns", span);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  FETTLE_ASSIGN_OR_RETURN(request.duty_span, CheckLimit(span, "time.duty_span_ns"));
  FETTLE_ASSIGN_OR_RETURN(request.launch_limit, CheckLimit(limit, "time.launch_limit_ns"));
  FETTLE_ASSIGN_OR_RETURN(request.shortest_sample, CheckLimit(shortest, "time.shortest_sample_ns"));
  FETTLE_ASSIGN_OR_RETURN(request.idle, CheckLimit(idle, "time.idle_ns"));
  FETTLE_ASSIGN_OR_RETURN(request.time_cap, CheckLimit(cap, "time.time_cap_ns"));
  if (device_cap != 0) {
    FETTLE_ASSIGN_OR_RETURN(request.device_cap, CheckLimit(device_cap, "time.device_cap_ns"));
  }
  return request;
}

nlohmann::json ToJson(const RunObservation& observation) {
  nlohmann::json json = {{"output_digests", observation.output_digests},
                         {"repeats_equal", observation.repeats_equal},
                         {"poison_bytes", observation.poison_bytes},
                         {"other_outputs", observation.other_outputs.size()},
                         {"at_page_end", observation.at_page_end},
                         {"findings", nlohmann::json::array()},
                         {"device_ns", JsonNumber(observation.device_ns)}};
  if (observation.modified_input) json["modified_input"] = *observation.modified_input;
  if (observation.guard_violation) json["guard_violation"] = *observation.guard_violation;
  if (observation.padding_violation) json["padding_violation"] = *observation.padding_violation;
  for (const CheckFinding& finding : observation.findings) {
    json["findings"].push_back(FindingJson(finding));
  }
  return json;
}

absl::StatusOr<RunObservation> RunObservationFromJson(const nlohmann::json& json) {
  RunObservation observation;
  JsonReader reader(json, "observation");
  std::int64_t others = 0;
  reader.Get("output_digests", observation.output_digests);
  reader.Get("repeats_equal", observation.repeats_equal);
  reader.Get("poison_bytes", observation.poison_bytes);
  reader.Get("other_outputs", others);
  reader.Get("at_page_end", observation.at_page_end);
  GetText(reader, "padding_violation", observation.padding_violation);
  GetText(reader, "modified_input", observation.modified_input);
  GetText(reader, "guard_violation", observation.guard_violation);
  reader.ForEach("findings", [&observation](const nlohmann::json& entry) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(CheckFinding finding, FindingFromJson(entry));
    observation.findings.push_back(std::move(finding));
    return absl::OkStatus();
  });
  reader.Get("device_ns", observation.device_ns);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  if (others < 0 || others > kMostOtherOutputs) {
    return absl::InvalidArgumentError(
        fmt::format("observation.other_outputs: {} is outside [0, {}]", others, kMostOtherOutputs));
  }
  observation.other_outputs.resize(static_cast<std::size_t>(others));
  return observation;
}

nlohmann::json ToJson(const TimeObservation& observation) {
  Measurement one;
  one.cases.push_back(observation.measurement);
  nlohmann::json json = {{"measurement", ToJson(one)},
                         {"calibration_error", JsonNumber(observation.calibration_error)},
                         {"device_ns", JsonNumber(observation.device_ns)},
                         {"sampled", observation.sampled},
                         {"judged_single", observation.judged_single},
                         {"outputs_kept", observation.outputs_kept},
                         {"all_timed_outputs_equal", observation.all_timed_outputs_equal},
                         {"rotated_bytes", observation.rotated_bytes},
                         {"graphs", observation.graphs}};
  if (observation.modified_input) json["modified_input"] = *observation.modified_input;
  if (observation.guard_violation) json["guard_violation"] = *observation.guard_violation;
  if (!observation.duty.is_null()) json["duty"] = observation.duty;
  return json;
}

absl::StatusOr<TimeObservation> TimeObservationFromJson(const nlohmann::json& json) {
  TimeObservation observation;
  Measurement one;
  JsonReader reader(json, "observation");
  reader.Nested("measurement", one, MeasurementFromJson);
  reader.Get("calibration_error", observation.calibration_error);
  reader.Get("device_ns", observation.device_ns);
  reader.Get("sampled", observation.sampled);
  reader.Get("judged_single", observation.judged_single);
  reader.Get("outputs_kept", observation.outputs_kept);
  reader.Get("all_timed_outputs_equal", observation.all_timed_outputs_equal);
  reader.Get("rotated_bytes", observation.rotated_bytes);
  reader.Get("graphs", observation.graphs);
  GetText(reader, "modified_input", observation.modified_input);
  GetText(reader, "guard_violation", observation.guard_violation);
  observation.duty = reader.OptionalChild("duty", nullptr);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  if (!observation.duty.is_null()) {
    FETTLE_RETURN_IF_ERROR(DutyPointsFromJson(observation.duty).status());
  }
  if (one.cases.size() != 1) {
    return absl::InvalidArgumentError("observation.measurement must hold one case");
  }
  observation.measurement = std::move(one.cases.front());
  return observation;
}

nlohmann::json ToJson(const DeviceInfo& info) {
  nlohmann::json json = {{"id", info.id},
                         {"model", info.model},
                         {"driver", info.driver},
                         {"uuid", info.uuid},
                         {"partition", info.partition},
                         {"target", TargetJson(info.target)},
                         {"memory_bytes", info.memory_bytes}};
  if (info.emulated) json["emulated"] = true;
  return json;
}

absl::StatusOr<DeviceInfo> DeviceInfoFromJson(const nlohmann::json& json) {
  DeviceInfo info;
  JsonReader reader(json, "device");
  reader.Get("id", info.id);
  reader.Get("model", info.model);
  reader.Get("driver", info.driver);
  reader.Get("uuid", info.uuid);
  reader.Get("partition", info.partition);
  reader.Nested("target", info.target, TargetFromJson);
  reader.Get("memory_bytes", info.memory_bytes);
  reader.GetOptional("emulated", info.emulated);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return info;
}

nlohmann::json ErrorJson(const absl::Status& status) {
  return {{"code", static_cast<int>(status.code())},
          {"message", std::string(status.message()).substr(0, 4096)}};
}

absl::Status ErrorFromAnswer(const nlohmann::json& answer) {
  const auto found = answer.find("error");
  if (found == answer.end()) return absl::OkStatus();
  int code = 0;
  std::string message;
  JsonReader reader(*found, "error");
  reader.Get("code", code);
  reader.Get("message", message);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kInternal,
                      message);
}

nlohmann::json FilesHeader(const std::map<std::string, std::string>& files) {
  nlohmann::json entries = nlohmann::json::array();
  for (const auto& [path, bytes] : files) {
    entries.push_back({{"path", path}, {"size", bytes.size()}});
  }
  return entries;
}

absl::StatusOr<std::vector<FileEntry>> FilesFromHeader(const nlohmann::json& json) {
  constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;
  if (!json.is_array()) return absl::InvalidArgumentError("files: must be an array");
  std::vector<FileEntry> entries;
  std::int64_t total = 0;
  for (const nlohmann::json& item : json) {
    FileEntry& entry = entries.emplace_back();
    JsonReader reader(item, "files");
    reader.Get("path", entry.path);
    reader.Get("size", entry.size);
    FETTLE_RETURN_IF_ERROR(reader.Finish());
    if (entry.size < 0 || entry.size > kMostBytes - total) {
      return absl::InvalidArgumentError(
          fmt::format("files: {} has size {}", entry.path, entry.size));
    }
    total += entry.size;
  }
  return entries;
}

absl::StatusOr<std::vector<std::int64_t>> FetchedSizes(
    const BoundCase& bound_case, const std::vector<std::vector<std::int64_t>>& rows) {
  std::vector<const BoundTensor*> outputs;
  for (const BoundTensor& tensor : bound_case.tensors) {
    if (IsOutput(tensor)) outputs.push_back(&tensor);
  }
  if (rows.size() != outputs.size() && rows.size() != 2 * outputs.size()) {
    return absl::InvalidArgumentError(
        fmt::format("rows of {} outputs, there are {}", rows.size(), outputs.size()));
  }
  std::vector<std::int64_t> sizes;
  for (const std::vector<std::int64_t>& wanted : rows) {
    const BoundTensor& tensor = *outputs[sizes.size() % outputs.size()];
    const bool ascending =
        std::adjacent_find(wanted.begin(), wanted.end(), std::greater_equal<>()) == wanted.end();
    if (!wanted.empty() &&
        (!ascending || wanted.front() < 0 || wanted.back() >= RowCount(tensor))) {
      return absl::InvalidArgumentError(
          fmt::format("rows of {} must ascend within its {}", tensor.name, RowCount(tensor)));
    }
    sizes.push_back(wanted.empty() ? DenseBytes(tensor)
                                   : static_cast<std::int64_t>(wanted.size()) *
                                         StorageBytes(tensor.dtype, RowElements(tensor)));
  }
  return sizes;
}

std::vector<std::int64_t> OutputSizes(const BoundCase& bound_case) {
  std::vector<std::int64_t> sizes;
  for (const BoundTensor& tensor : bound_case.tensors) {
    if (tensor.is_null) continue;
    if (tensor.role == Role::kOut || tensor.role == Role::kInOut) {
      sizes.push_back(DenseBytes(tensor));
    }
  }
  return sizes;
}

}  // namespace fettle
