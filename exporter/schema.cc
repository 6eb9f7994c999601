// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/manifest.h"
#include "exporter/runtime_files.h"  // Generated from exporter/runtime.

namespace fettle {
namespace {

using nlohmann::json;

bool HasType(const json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

absl::Status Wrong(const std::string& at, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", at.empty() ? "/" : at, what));
}

absl::Status Check(const json& value, const json& schema, const json& root, const std::string& at);

absl::Status CheckMembers(const json& value, const json& schema, const json& root,
                          const std::string& at) {
  if (schema.contains("required")) {
    for (const json& name : schema["required"]) {
      if (!value.contains(name))
        return Wrong(at, fmt::format("lacks {}", name.dump(-1, ' ', false, kReplaceInvalid)));
    }
  }
  for (const auto& [name, member] : value.items()) {
    const json properties = schema.value("properties", json::object());
    const json& rest =
        schema.contains("additionalProperties") ? schema["additionalProperties"] : json(true);
    if (properties.contains(name)) {
      const absl::Status status = Check(member, properties[name], root, at + "/" + name);
      if (!status.ok()) return status;
    } else if (rest == json(false)) {
      return Wrong(at, fmt::format("has the unknown member {}",
                                   json(name).dump(-1, ' ', false, kReplaceInvalid)));
    } else if (rest.is_object()) {
      const absl::Status status = Check(member, rest, root, at + "/" + name);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const json& value, const json& schema, const json& root, const std::string& at) {
  if (schema.contains("$ref")) {
    // "#/$defs/name"
    const std::string pointer = schema["$ref"].get<std::string>().substr(1);
    return Check(value, root.at(json::json_pointer(pointer)), root, at);
  }
  if (schema.contains("const") && value != schema["const"]) {
    return Wrong(at,
                 fmt::format("must be {}", schema["const"].dump(-1, ' ', false, kReplaceInvalid)));
  }
  if (schema.contains("type") && !HasType(value, schema["type"].get<std::string>())) {
    return Wrong(at, fmt::format("must be of type {}", schema["type"].get<std::string>()));
  }
  if (schema.contains("enum")) {
    bool found = false;
    for (const json& allowed : schema["enum"]) found = found || allowed == value;
    if (!found)
      return Wrong(at, fmt::format("must be one of {}",
                                   schema["enum"].dump(-1, ' ', false, kReplaceInvalid)));
  }
  if (value.is_string() &&
      value.get_ref<const std::string&>().size() < schema.value("minLength", std::size_t{0})) {
    return Wrong(at, "is too short");
  }
  if (value.is_object()) return CheckMembers(value, schema, root, at);
  if (!value.is_array()) return absl::OkStatus();
  if (value.size() < schema.value("minItems", std::size_t{0}))
    return Wrong(at, "has too few items");
  for (std::size_t i = 0; schema.contains("items") && i < value.size(); ++i) {
    const absl::Status status = Check(value[i], schema["items"], root, fmt::format("{}/{}", at, i));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view ManifestSchema() {
  for (const EmbeddedFile& file : ExporterRuntimeFiles()) {
    if (file.name == "manifest.schema.json") return file.bytes;
  }
  FETTLE_CHECK(false && "no schema");
  return {};
}

absl::Status CheckSchema(const json& document, const json& schema) {
  return Check(document, schema, schema, "");
}

}  // namespace fettle
