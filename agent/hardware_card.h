// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hardware cards (data/cards): limits, peaks and short advice per target, each with its evidence.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

namespace fettle {

struct HardwareCard {
  // A device of the target; `match` is a part of its model's name as the driver tells it.
  struct Device {
    std::string name, match;
    nlohmann::json figures;  // units, clock_ghz, memory_tb_per_s, tflops: {dtype: peak}, ...
  };
  struct Advice {
    std::string id, text, evidence;
    std::vector<std::string> topics;  // memory, cache, compute, latency, registers, occupancy, ...
  };
  std::string target, vendor, note;
  nlohmann::json limits;  // Names with units, as shared_per_block_bytes.
  std::vector<Device> devices;
  std::vector<Advice> advice;

  // The device whose `match` is in `model`; null: none.
  const Device* DeviceOf(std::string_view model) const;
};

// kInvalidArgument names the field.
absl::StatusOr<HardwareCard> ParseHardwareCard(std::string_view json_text);
// The bundled card of a target; unset where there is none.
std::optional<HardwareCard> FindHardwareCard(std::string_view target);

// The card as text: limits, the device's figures, then advice on `topics` (empty: all) until
// `max_bytes` are reached; advice about earlier topics comes first.
std::string CardText(const HardwareCard& card, std::string_view device_model,
                     const std::vector<std::string>& topics, std::size_t max_bytes);

}  // namespace fettle
