// SPDX-License-Identifier: Apache-2.0
#include "core/json_reader.h"

#include <cmath>

#include <fmt/format.h>

namespace fettle {
namespace {

const nlohmann::json& NullJson() {
  static const nlohmann::json* const null = new nlohmann::json;
  return *null;
}

}  // namespace

nlohmann::json JsonNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

nlohmann::json JsonNumbers(const std::vector<double>& values) {
  nlohmann::json array = nlohmann::json::array();
  for (const double value : values) array.push_back(JsonNumber(value));
  return array;
}

JsonReader::JsonReader(const nlohmann::json& json, std::string what)
    : json_(json), what_(std::move(what)) {
  if (!json.is_object()) {
    status_ = absl::InvalidArgumentError(fmt::format("{}: must be an object", what_));
  }
}

bool JsonReader::Has(std::string_view key) const {
  return json_.is_object() && json_.contains(key);
}

const nlohmann::json* JsonReader::Take(std::string_view key, bool required) {
  if (!status_.ok()) return nullptr;
  known_.emplace(key);
  const auto found = json_.find(key);
  if (found == json_.end() || (!required && found->is_null())) {
    if (required) Fail(key, "is missing");
    return nullptr;
  }
  return &*found;
}

const nlohmann::json& JsonReader::Child(std::string_view key) {
  const nlohmann::json* value = Take(key, /*required=*/true);
  return value == nullptr ? NullJson() : *value;
}

nlohmann::json JsonReader::OptionalChild(std::string_view key, nlohmann::json fallback) {
  const nlohmann::json* value = Take(key, /*required=*/false);
  return value == nullptr ? std::move(fallback) : *value;
}

void JsonReader::Fail(std::string_view key, std::string_view message) {
  Adopt(absl::InvalidArgumentError(fmt::format("{}.{}: {}", what_, key, message)));
}

void JsonReader::Adopt(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

absl::Status JsonReader::Finish() {
  if (!status_.ok()) return status_;
  for (auto it = json_.begin(); it != json_.end(); ++it) {
    if (!known_.contains(it.key())) {
      return absl::InvalidArgumentError(
          fmt::format("{}: unknown field '{}'", what_, it.key().substr(0, 100)));
    }
  }
  return absl::OkStatus();
}

void JsonReader::Convert(std::string_view key, const nlohmann::json& value, bool& out) {
  if (!value.is_boolean()) return Fail(key, "must be true or false");
  out = value.get<bool>();
}

void JsonReader::Convert(std::string_view key, const nlohmann::json& value, double& out) {
  if (value.is_number()) {
    out = value.get<double>();
  } else if (value == "NaN") {
    out = std::numeric_limits<double>::quiet_NaN();
  } else if (value == "Infinity" || value == "-Infinity") {
    const double infinity = std::numeric_limits<double>::infinity();
    out = value == "Infinity" ? infinity : -infinity;
  } else {
    Fail(key, "must be a number");
  }
}

void JsonReader::Convert(std::string_view key, const nlohmann::json& value, std::string& out) {
  if (!value.is_string()) return Fail(key, "must be a string");
  out = value.get_ref<const std::string&>();
}

void JsonReader::Convert(std::string_view key, const nlohmann::json& value, std::int64_t& out) {
  if (!value.is_number_integer()) return Fail(key, "must be an integer");
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return Fail(key, "out of range");
  }
  out = value.get<std::int64_t>();
}

void JsonReader::Convert(std::string_view key, const nlohmann::json& value, std::uint64_t& out) {
  // Parsed text holds non-negative integers as unsigned, values built in memory may not.
  if (!value.is_number_integer() ||
      (!value.is_number_unsigned() && value.get<std::int64_t>() < 0)) {
    return Fail(key, "must be a non-negative integer");
  }
  out = value.get<std::uint64_t>();
}

void JsonReader::Convert(std::string_view, const nlohmann::json& value, nlohmann::json& out) {
  out = value;
}

}  // namespace fettle
