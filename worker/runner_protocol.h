// SPDX-License-Identifier: Apache-2.0
#pragma once

// JSON forms of what crosses the channel between worker and runner (docs/isolation.md). Reading is
// strict on both sides. Outputs travel in the request's memory file, not here.

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "device/runner_session.h"

namespace fettle {

// Operations, in the header's "op".
inline constexpr std::string_view kOpHello = "hello";
inline constexpr std::string_view kOpLoad = "load";
inline constexpr std::string_view kOpUnload = "unload";
inline constexpr std::string_view kOpRun = "run";
inline constexpr std::string_view kOpTime = "time";
inline constexpr std::string_view kOpFetch = "fetch";
inline constexpr std::string_view kOpHealth = "health";
inline constexpr std::string_view kOpCeilings = "ceilings";

// Names a case by everything in it.
std::string CaseName(const BoundCase& bound_case);

// A case as requests carry it: whole the first time ({"name", "case", "first"}), then by its name
// ({"name"}), because a case may hold lists of a million entries and is used in dozens of requests.
// Not thread-safe.
class SentCases {
 public:
  static constexpr std::size_t kMost = 64;
  // The form of one case for the next request. After kMost it starts anew, and says so.
  nlohmann::json FormOf(const BoundCase& bound_case);
  // After a request that may not have arrived.
  void Forget() { sent_.clear(); }

 private:
  std::set<std::string> sent_;
};
class ReceivedCases {
 public:
  // kInvalidArgument: malformed, or a name that was not sent before.
  absl::StatusOr<BoundCase> Take(const nlohmann::json& form);

 private:
  std::map<std::string, BoundCase> held_;
};

// `files` travels in the memory file as well: FilesHeader says how much of it. `case_form`: from
// SentCases.
nlohmann::json ToJson(const RunRequest& request, nlohmann::json case_form);
absl::StatusOr<RunRequest> RunRequestFromJson(const nlohmann::json& json, ReceivedCases& cases);
nlohmann::json ToJson(const TimeRequest& request, nlohmann::json case_form);
absl::StatusOr<TimeRequest> TimeRequestFromJson(const nlohmann::json& json, ReceivedCases& cases);

// `outputs` is left out: the case says how long each is. Of `other_outputs` only the number
// crosses; they follow `outputs` in the memory file.
nlohmann::json ToJson(const RunObservation& observation);
absl::StatusOr<RunObservation> RunObservationFromJson(const nlohmann::json& json);
nlohmann::json ToJson(const TimeObservation& observation);
absl::StatusOr<TimeObservation> TimeObservationFromJson(const nlohmann::json& json);

nlohmann::json ToJson(const DeviceInfo& info);
absl::StatusOr<DeviceInfo> DeviceInfoFromJson(const nlohmann::json& json);

// {"code": 10, "message": ...} of an answer that failed.
nlohmann::json ErrorJson(const absl::Status& status);
// The status in `answer`'s "error"; OK where there is none. Codes outside the seam's become
// kInternal.
absl::Status ErrorFromAnswer(const nlohmann::json& answer);

// Dense bytes of every output (out and inout, in case order): the room an answer needs.
std::vector<std::int64_t> OutputSizes(const BoundCase& bound_case);

inline constexpr std::int64_t kMostOtherOutputs = 4;

// Packed bytes of `rows` of every output, as FetchOutputs returns them. kInvalidArgument: not one
// list for each output, or two, or rows that are not ascending or not in the tensor.
absl::StatusOr<std::vector<std::int64_t>> FetchedSizes(
    const BoundCase& bound_case, const std::vector<std::vector<std::int64_t>>& rows);

// [{"path", "size"}]: the files at the start of the memory file, in this order.
nlohmann::json FilesHeader(const std::map<std::string, std::string>& files);
struct FileEntry {
  std::string path;
  std::int64_t size = 0;
};
// kInvalidArgument: malformed, or more than 4 GiB.
absl::StatusOr<std::vector<FileEntry>> FilesFromHeader(const nlohmann::json& json);

// The most that one launch may take is bounded, so that a request cannot make the runner wait for
// ever: limits outside (0, 10 min] are refused.
inline constexpr std::chrono::minutes kMaxLaunchLimit{10};

}  // namespace fettle
