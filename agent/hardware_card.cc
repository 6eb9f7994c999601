// SPDX-License-Identifier: Apache-2.0
#include "agent/hardware_card.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/agent_data.h"
#include "core/json_reader.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

std::string Figures(const json& figures) {
  std::string text;
  for (const auto& [name, value] : figures.items()) {
    if (value.is_object()) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name, Figures(value));
    } else {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value.dump());
    }
  }
  return text;
}

bool IsAbout(const HardwareCard::Advice& advice, const std::string& topic) {
  return std::find(advice.topics.begin(), advice.topics.end(), topic) != advice.topics.end();
}

}  // namespace

const HardwareCard::Device* HardwareCard::DeviceOf(std::string_view model) const {
  for (const Device& device : devices) {
    if (model.find(device.match) != std::string_view::npos) return &device;
  }
  return nullptr;
}

absl::StatusOr<HardwareCard> ParseHardwareCard(std::string_view json_text) {
  const json document = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  JsonReader reader(document, "card");
  HardwareCard card;
  std::int64_t format = 0, wave = 0;
  std::string unit;
  reader.Get("format", format);
  reader.Get("target", card.target);
  reader.Get("vendor", card.vendor);
  reader.Get("wave", wave);
  reader.Get("unit", unit);
  if (const json note = reader.OptionalChild("note", json("")); note.is_string()) {
    card.note = note.get<std::string>();
  }
  card.limits = reader.OptionalChild("limits", json::object());
  reader.ForEach("devices", [&](const json& entry) -> absl::Status {
    if (!entry.is_object()) return absl::InvalidArgumentError("card.devices: must hold objects");
    HardwareCard::Device device;
    device.figures = entry;
    device.name = entry.value("name", std::string());
    device.match = entry.value("match", std::string());
    device.figures.erase("name");
    device.figures.erase("match");
    if (device.name.empty() || device.match.empty()) {
      return absl::InvalidArgumentError("card.devices: each needs name and match");
    }
    card.devices.push_back(std::move(device));
    return absl::OkStatus();
  });
  reader.ForEach("cards", [&](const json& entry) -> absl::Status {
    JsonReader inner(entry, "card.cards");
    HardwareCard::Advice advice;
    inner.Get("id", advice.id);
    inner.Get("topics", advice.topics);
    inner.Get("text", advice.text);
    inner.Get("evidence", advice.evidence);
    FETTLE_RETURN_IF_ERROR(inner.Finish());
    card.advice.push_back(std::move(advice));
    return absl::OkStatus();
  });
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  if (format != 1) return absl::InvalidArgumentError("card.format: must be 1");
  if (!card.limits.is_object()) return absl::InvalidArgumentError("card.limits: must be an object");
  card.limits["wave"] = wave;
  return card;
}

std::optional<HardwareCard> FindHardwareCard(std::string_view target) {
  const std::string name = fmt::format("cards/{}.json", target);
  for (const std::string_view known : AgentDataNames()) {
    if (known != name) continue;
    absl::StatusOr<HardwareCard> card = ParseHardwareCard(AgentData(name));
    FETTLE_CHECK(card.ok());  // A test parses all of them.
    return *std::move(card);
  }
  return std::nullopt;
}

std::string CardText(const HardwareCard& card, std::string_view device_model,
                     const std::vector<std::string>& topics, std::size_t max_bytes) {
  std::string text = fmt::format("Target {}. Limits: {}.\n", card.target, Figures(card.limits));
  if (const auto* device = card.DeviceOf(device_model)) {
    text += fmt::format("Device {}: {}.\n", device->name, Figures(device->figures));
  }
  if (!card.note.empty()) text += card.note + "\n";
  std::vector<const HardwareCard::Advice*> chosen;
  const auto add = [&](const HardwareCard::Advice& advice) {
    if (std::find(chosen.begin(), chosen.end(), &advice) == chosen.end()) chosen.push_back(&advice);
  };
  for (const std::string& topic : topics) {
    for (const HardwareCard::Advice& advice : card.advice) {
      if (IsAbout(advice, topic)) add(advice);
    }
  }
  if (topics.empty()) {
    for (const HardwareCard::Advice& advice : card.advice) add(advice);
  }
  for (const HardwareCard::Advice* advice : chosen) {
    const std::string line =
        fmt::format("- {}: {} [{}]\n", advice->id, advice->text, advice->evidence);
    if (text.size() + line.size() > max_bytes) continue;
    text += line;
  }
  return CutText(text, max_bytes);
}

}  // namespace fettle
