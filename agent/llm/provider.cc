// SPDX-License-Identifier: Apache-2.0
#include "agent/llm/provider.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/json_text.h"

namespace fettle {

LlmToolCall MakeToolCall(std::string id, std::string name, std::string raw) {
  LlmToolCall call{.id = std::move(id), .name = std::move(name)};
  // Providers leave the arguments empty for a call without any.
  call.input = ParseJson(raw.empty() ? "{}" : raw, kMaxPartNesting);
  if (!call.input.is_object()) call.input = nullptr;
  call.raw_input = std::move(raw);
  return call;
}

absl::StatusOr<nlohmann::json> ParseEventData(const std::string& data) {
  nlohmann::json json = ParseJson(RepairUtf8(data), kMaxPartNesting);
  if (!json.is_object()) {
    return absl::DataLossError(fmt::format(
        "read the model's stream: an event of {} bytes is no JSON object", data.size()));
  }
  return json;
}

std::int64_t CountAt(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return 0;
  constexpr double kMost = 1e15;
  const double value = found->get<double>();
  return value > 0 ? static_cast<std::int64_t>(std::min(value, kMost)) : 0;
}

absl::Status AnswerSize::Add(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ <= kMaxAnswerBytes) return absl::OkStatus();
  return absl::OutOfRangeError(
      fmt::format("the model's answer is longer than {} bytes", kMaxAnswerBytes));
}

}  // namespace fettle
