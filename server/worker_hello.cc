// SPDX-License-Identifier: Apache-2.0
#include "server/worker_hello.h"

#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/limits.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

absl::StatusOr<Json> ParseArray(const std::string& text, const char* field) {
  Json json = ParseJson(text);
  if (!json.is_array()) return errors::BadField(field, "must be a JSON array of objects");
  for (const Json& entry : json) {
    if (!entry.is_object()) return errors::BadField(field, "must be a JSON array of objects");
  }
  return json;
}

absl::StatusOr<std::pair<std::string, int>> ParseHeld(const std::string& text) {
  const auto colon = text.rfind(':');
  int attempt = 0;
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, attempt);
    if (error == std::errc() && rest == end && attempt >= 1) {
      return std::pair(text.substr(0, colon), attempt);
    }
  }
  return errors::BadField("hello.held_units", "each entry must be unit:attempt");
}

}  // namespace

absl::StatusOr<WorkerHello> ParseHello(const v1::Hello& hello) {
  if (hello.worker_id().empty() || hello.worker_id().size() > limits::kMaxNameBytes) {
    return errors::BadField("hello.worker_id", "must have 1 to 200 bytes");
  }
  if (hello.slots() < 1 || hello.slots() > limits::kMaxSlots) {
    return errors::BadField("hello.slots", fmt::format("must be 1 to {}", limits::kMaxSlots));
  }
  FETTLE_ASSIGN_OR_RETURN(const Json devices,
                          ParseArray(hello.devices_json(), "hello.devices_json"));
  FETTLE_ASSIGN_OR_RETURN(const Json compilers,
                          ParseArray(hello.compilers_json(), "hello.compilers_json"));
  WorkerHello out;
  out.view.id = hello.worker_id();
  out.view.host = CutText(hello.host(), limits::kMaxNameBytes);
  out.view.version = CutText(hello.version(), limits::kMaxNameBytes);
  out.view.devices_json = hello.devices_json();
  out.view.compilers_json = hello.compilers_json();
  out.view.slots = hello.slots();
  for (const Json& device : devices) {
    out.view.devices.push_back({TextOf(device, "id"), TextOf(device, "model"),
                                TextOf(device, "target"),
                                device.contains("emulated") && device["emulated"] == true});
    if (out.view.devices.back().target.empty()) {
      return errors::BadField("hello.devices_json", "each device needs a target");
    }
  }
  for (const Json& compiler : compilers) {
    const auto targets = compiler.find("targets");
    if (targets == compiler.end() || !targets->is_array()) continue;
    for (const Json& target : *targets) {
      if (!target.is_string()) continue;
      std::string& identity = out.toolchains[target.get<std::string>()];
      if (identity.empty()) identity = TextOf(compiler, "identity");
    }
  }
  for (const std::string& held : hello.held_units()) {
    FETTLE_ASSIGN_OR_RETURN(auto parsed, ParseHeld(held));
    out.held.push_back(std::move(parsed));
  }
  return out;
}

}  // namespace fettle
