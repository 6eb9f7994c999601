// SPDX-License-Identifier: Apache-2.0
// The JSON form of a kernel block, candidate digests and the size of a tunable space.

#include <limits>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/json_reader.h"
#include "core/task.h"

namespace fettle {
namespace {

using nlohmann::json;

json ExprArray(const std::vector<Expr>& exprs) {
  json array = json::array();
  for (const Expr& expr : exprs) array.push_back(expr.text());
  return array;
}

json ArrayOr(const json& value) { return value.is_array() ? value : json::array(); }

absl::Status ReadExprs(JsonReader& reader, std::string_view key, std::vector<Expr>& out) {
  reader.ForEach(key, [&](const json& entry) -> absl::Status {
    if (!entry.is_string()) {
      return absl::InvalidArgumentError(fmt::format("kernel.{}: must hold expressions", key));
    }
    FETTLE_ASSIGN_OR_RETURN(Expr expr, Expr::Parse(entry.get_ref<const std::string&>()));
    out.push_back(std::move(expr));
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

void ReadTunables(JsonReader& reader, std::vector<Tunable>& out) {
  reader.ForEach("tunables", [&](const json& entry) -> absl::Status {
    JsonReader inner(entry, "tunable");
    Tunable tunable;
    inner.Get("name", tunable.name);
    inner.Get("values", tunable.values);
    FETTLE_RETURN_IF_ERROR(inner.Finish());
    out.push_back(std::move(tunable));
    return absl::OkStatus();
  });
}

void ReadValues(JsonReader& reader, TunableValues& out) {
  const json values = reader.OptionalChild("values", json::object());
  if (!values.is_object()) return reader.Fail("values", "must be an object");
  for (auto it = values.begin(); it != values.end(); ++it) {
    if (!it->is_number_integer()) return reader.Fail("values", "must hold integers");
    out[it.key()] = it->get<std::int64_t>();
  }
}

}  // namespace

json ToJson(const KernelSpec& kernel) {
  json headers = json::array(), tunables = json::array(), values = json::object();
  for (const auto& [name, text] : kernel.headers) {
    headers.push_back({{"name", name}, {"text", text}});
  }
  for (const Tunable& tunable : kernel.tunables) {
    tunables.push_back({{"name", tunable.name}, {"values", tunable.values}});
  }
  for (const auto& [name, value] : kernel.values) values[name] = value;
  return {{"source_name", kernel.source_name},
          {"source", kernel.source},
          {"headers", std::move(headers)},
          {"dialect", DialectName(kernel.dialect)},
          {"lanes", kernel.lanes == 0 ? json("any") : json(kernel.lanes)},
          {"tunables", std::move(tunables)},
          {"values", std::move(values)},
          {"constraints", ExprArray(kernel.constraints)},
          {"requires", ExprArray(kernel.guards)},
          {"launches", ArrayOr(kernel.launches)},
          {"workspace", ArrayOr(kernel.workspace)}};
}

absl::StatusOr<KernelSpec> KernelSpecFromJson(const json& in) {
  JsonReader reader(in, "kernel");
  KernelSpec kernel;
  reader.Get("source_name", kernel.source_name);
  reader.Get("source", kernel.source);
  reader.ForEach("headers", [&](const json& entry) -> absl::Status {
    JsonReader inner(entry, "header");
    std::pair<std::string, std::string> header;
    inner.Get("name", header.first);
    inner.Get("text", header.second);
    FETTLE_RETURN_IF_ERROR(inner.Finish());
    kernel.headers.push_back(std::move(header));
    return absl::OkStatus();
  });
  kernel.dialect = reader.Enum("dialect", ParseDialect, Dialect::kCuda);
  const json lanes = reader.Child("lanes");
  if (lanes == 32 || lanes == 64) {
    kernel.lanes = lanes.get<int>();
  } else {
    kernel.lanes = 0;
    if (lanes != "any") reader.Fail("lanes", "must be 32, 64 or \"any\"");
  }
  ReadTunables(reader, kernel.tunables);
  ReadValues(reader, kernel.values);
  FETTLE_RETURN_IF_ERROR(ReadExprs(reader, "constraints", kernel.constraints));
  FETTLE_RETURN_IF_ERROR(ReadExprs(reader, "requires", kernel.guards));
  kernel.launches = reader.OptionalChild("launches", json::array());
  kernel.workspace = reader.OptionalChild("workspace", json::array());
  if (!kernel.launches.is_array()) reader.Fail("launches", "must be an array");
  if (!kernel.workspace.is_array()) reader.Fail("workspace", "must be an array");
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return kernel;
}

std::string CandidateDigest(std::string_view task_digest, std::string_view target,
                            const KernelSpec& kernel, const TunableValues& values) {
  json block = ToJson(kernel);
  // What does not change what is compiled and run: the space around the chosen values.
  block.erase("tunables");
  block.erase("constraints");
  block.erase("source_name");
  json chosen = json::object();
  for (const auto& [name, value] : values) chosen[name] = value;
  block["values"] = std::move(chosen);
  return Sha256Hex(
      CanonicalJson({{"task", task_digest}, {"target", target}, {"kernel", std::move(block)}}));
}

std::int64_t SpaceSize(const std::vector<Tunable>& tunables) {
  std::int64_t size = 1;
  for (const Tunable& tunable : tunables) {
    if (__builtin_mul_overflow(size, static_cast<std::int64_t>(tunable.values.size()), &size)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return size;
}

}  // namespace fettle
