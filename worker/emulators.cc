// SPDX-License-Identifier: Apache-2.0
#include "worker/emulators.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "core/json_reader.h"
#include "core/json_text.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

using nlohmann::json;

absl::StatusOr<Emulator> EmulatorFromJson(const json& in, const std::string& what) {
  Emulator emulator;
  JsonReader reader(in, what);
  reader.Get("command", emulator.command);
  reader.GetOptional("read_only", emulator.read_only);
  const json environment = reader.OptionalChild("environment", json::object());
  if (reader.ok() && emulator.command.empty()) {
    reader.Fail("command", "must be a list that starts with the emulator's program");
  }
  for (const std::string& path : emulator.read_only) {
    std::error_code error;
    if (!std::filesystem::path(path).is_absolute() || !std::filesystem::exists(path, error)) {
      reader.Fail("read_only", fmt::format("\"{}\" is not an absolute path that exists", path));
    }
  }
  if (!environment.is_object()) {
    reader.Fail("environment", "must be an object of names and texts");
  } else {
    for (const auto& [name, value] : environment.items()) {
      if (name.empty() || name.find('=') != std::string::npos || !value.is_string()) {
        reader.Fail("environment", fmt::format("\"{}\" must be a name with a text", name));
        break;
      }
      emulator.environment.push_back(fmt::format("{}={}", name, value.get<std::string>()));
    }
  }
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return emulator;
}

}  // namespace

void Emulator::ApplyTo(SandboxOptions& sandbox) const {
  sandbox.wrapper = command;
  sandbox.read_only_binds.insert(sandbox.read_only_binds.end(), read_only.begin(), read_only.end());
  const bool has_path = std::any_of(environment.begin(), environment.end(),
                                    [](const auto& one) { return one.starts_with("PATH="); });
  if (!has_path) sandbox.environment.emplace_back("PATH=/usr/bin:/bin");
  sandbox.environment.insert(sandbox.environment.end(), environment.begin(), environment.end());
}

absl::StatusOr<std::map<std::string, Emulator>> ReadEmulators(const std::string& file) {
  std::ifstream in(file);
  if (!in)
    return absl::NotFoundError(fmt::format("read the emulators file {}: no such file", file));
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const json document = ParseJson(text);
  if (!document.is_object()) {
    return absl::InvalidArgumentError(
        fmt::format("emulators file {}: not a JSON object; see docs/emulation.md", file));
  }
  JsonReader reader(document, fmt::format("emulators file {}", file));
  const json& devices = reader.Child("devices");
  if (reader.ok() && (!devices.is_object() || devices.empty())) {
    reader.Fail("devices", "must be an object with a device id, as hip:0, for each emulator");
  }
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  std::map<std::string, Emulator> emulators;
  for (const auto& [id, entry] : devices.items()) {
    FETTLE_ASSIGN_OR_RETURN(
        emulators[id],
        EmulatorFromJson(entry, fmt::format("emulators file {}: devices.{}", file, id)));
  }
  return emulators;
}

}  // namespace fettle
