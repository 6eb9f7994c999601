// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "exporter/manifest.h"
#include "core/text.h"

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
      if (!value.contains(name)) return Wrong(at, fmt::format("lacks {}", name.dump(-1, ' ', false, kReplaceInvalid)));
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
      return Wrong(at, fmt::format("has the unknown member {}", json(name).dump(-1, ' ', false, kReplaceInvalid)));
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
    return Wrong(at, fmt::format("must be {}", schema["const"].dump(-1, ' ', false, kReplaceInvalid)));
  }
  if (schema.contains("type") && !HasType(value, schema["type"].get<std::string>())) {
    return Wrong(at, fmt::format("must be of type {}", schema["type"].get<std::string>()));
  }
  if (schema.contains("enum")) {
    bool found = false;
    for (const json& allowed : schema["enum"]) found = found || allowed == value;
    if (!found) return Wrong(at, fmt::format("must be one of {}", schema["enum"].dump(-1, ' ', false, kReplaceInvalid)));
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

constexpr std::string_view kSchema = R"json({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "fettle bundle manifest, format 1",
  "type": "object",
  "additionalProperties": false,
  "required": ["format", "tool", "op", "variants", "fallback"],
  "properties": {
    "format": {"const": 1},
    "tool": {
      "type": "object", "additionalProperties": false, "required": ["name", "version"],
      "properties": {"name": {"const": "fettle"}, "version": {"type": "string", "minLength": 1}}
    },
    "op": {
      "type": "object", "additionalProperties": false,
      "required": ["name", "summary", "license", "task_digest", "task", "reference"],
      "properties": {
        "name": {"type": "string", "minLength": 1},
        "summary": {"type": "string"},
        "license": {"type": "string", "minLength": 1},
        "task_digest": {"type": "string", "minLength": 64},
        "task": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/file"}},
        "reference": {
          "type": "object", "additionalProperties": false, "required": ["kind", "path", "function"],
          "properties": {
            "kind": {"type": "string"}, "path": {"type": "string"}, "function": {"type": "string"}
          }
        }
      }
    },
    "variants": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/variant"}},
    "fallback": {
      "type": "object", "additionalProperties": false, "required": ["kind", "kernel"],
      "properties": {"kind": {"const": "baseline"}, "kernel": {"$ref": "#/$defs/kernel"}}
    }
  },
  "$defs": {
    "file": {
      "type": "object", "additionalProperties": false, "required": ["path", "sha256", "bytes"],
      "properties": {
        "path": {"type": "string", "minLength": 1},
        "sha256": {"type": "string", "minLength": 64},
        "bytes": {"type": "integer"}
      }
    },
    "kernel": {
      "type": "object", "additionalProperties": false,
      "required": ["source", "headers", "dialect", "lanes", "values", "launches", "workspace"],
      "properties": {
        "source": {"$ref": "#/$defs/file"},
        "headers": {"type": "array", "items": {"$ref": "#/$defs/file"}},
        "dialect": {"enum": ["cuda", "hip"]},
        "lanes": {"type": "integer"},
        "values": {"type": "object", "additionalProperties": {"type": "integer"}},
        "launches": {"type": "array"},
        "workspace": {"type": "array"}
      }
    },
    "range": {
      "type": "object", "additionalProperties": false, "required": ["min", "max"],
      "properties": {"min": {"type": "integer"}, "max": {"type": "integer"}}
    },
    "guards": {
      "type": "object", "additionalProperties": false, "required": ["requires", "types", "dims"],
      "properties": {
        "requires": {"type": "array", "items": {"type": "string", "minLength": 1}},
        "types": {
          "type": "array",
          "items": {"type": "object", "additionalProperties": {"type": "string"}}
        },
        "dims": {"type": "object", "additionalProperties": {"$ref": "#/$defs/range"}}
      }
    },
    "build": {
      "type": "object", "additionalProperties": false,
      "required": ["target", "status", "key", "entries", "symbols", "compiler", "object", "facts"],
      "properties": {
        "target": {"type": "string", "minLength": 1},
        "status": {"enum": ["run", "emulated", "compiled_only"]},
        "key": {"type": "string"},
        "entries": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "symbols": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "compiler": {"type": "string"},
        "object": {"$ref": "#/$defs/file"},
        "facts": {"type": "object"}
      }
    },
    "case": {
      "type": "object", "additionalProperties": false,
      "required": ["case", "baseline_median_ns", "median_ns", "ratio", "ratio_low", "ratio_high",
                   "roofline_fraction"],
      "properties": {
        "case": {"type": "string"},
        "baseline_median_ns": {"type": "number"},
        "median_ns": {"type": "number"},
        "ratio": {"type": "number"},
        "ratio_low": {"type": "number"},
        "ratio_high": {"type": "number"},
        "roofline_fraction": {"type": "number"}
      }
    },
    "variant": {
      "type": "object", "additionalProperties": false,
      "required": ["id", "target", "device", "status", "kernel", "guards", "builds", "performance",
                   "evidence"],
      "properties": {
        "id": {"type": "string", "minLength": 1},
        "target": {"type": "string", "minLength": 1},
        "device": {"type": "string"},
        "status": {"enum": ["accepted", "superseded"]},
        "kernel": {"$ref": "#/$defs/kernel"},
        "guards": {"$ref": "#/$defs/guards"},
        "builds": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/build"}},
        "performance": {
          "type": "object", "additionalProperties": false,
          "required": ["ratio", "ratio_low", "ratio_high", "ratio_declared", "ratio_tuned",
                       "roofline_fraction", "cases"],
          "properties": {
            "ratio": {"type": "number"},
            "ratio_low": {"type": "number"},
            "ratio_high": {"type": "number"},
            "ratio_declared": {"type": "number"},
            "ratio_tuned": {"type": "number"},
            "roofline_fraction": {"type": "number"},
            "cases": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/case"}}
          }
        },
        "evidence": {"$ref": "#/$defs/file"}
      }
    }
  }
}
)json";

}  // namespace

std::string_view ManifestSchema() { return kSchema; }

absl::Status CheckSchema(const json& document, const json& schema) {
  return Check(document, schema, schema, "");
}

}  // namespace fettle
