// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/status.h>
#include <nlohmann/json.hpp>

#include "core/status_macros.h"

namespace fettle {

// The enumerator whose name stands at its own index in `names`.
template <typename E, std::size_t N>
std::optional<E> FindName(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

// A double as JSON; NaN and infinities, which JSON lacks, become "NaN", "Infinity", "-Infinity".
nlohmann::json JsonNumber(double value);
nlohmann::json JsonNumbers(const std::vector<double>& values);

// Reads a JSON object strictly: the first mistake is kept and returned by Finish (kInvalidArgument,
// "<what>.<key>: ..."), unknown keys among them. After a mistake every read is a harmless no-op.
class JsonReader {
 public:
  // `json` must outlive the reader.
  JsonReader(const nlohmann::json& json, std::string what);

  bool Has(std::string_view key) const;

  // Requires `key`; leaves `out` alone on a mistake.
  template <typename T>
  void Get(std::string_view key, T& out) {
    if (const nlohmann::json* value = Take(key, /*required=*/true)) Convert(key, *value, out);
  }
  // Keeps `out` where `key` is absent.
  template <typename T>
  void GetOptional(std::string_view key, T& out) {
    if (const nlohmann::json* value = Take(key, /*required=*/false)) Convert(key, *value, out);
  }
  // An enumerator by its name.
  template <typename E>
  E Enum(std::string_view key, std::optional<E> (*parse)(std::string_view), E fallback) {
    std::string name;
    Get(key, name);
    if (!status_.ok()) return fallback;
    const std::optional<E> found = parse(name);
    if (!found) Fail(key, "unknown value '" + name + "'");
    return found.value_or(fallback);
  }
  // The raw value; null where it is missing (a mistake) or something failed before.
  const nlohmann::json& Child(std::string_view key);
  nlohmann::json OptionalChild(std::string_view key, nlohmann::json fallback);
  // Calls `each(entry)`, which returns a Status, for every entry of an array; an absent key is an
  // empty array.
  template <typename F>
  void ForEach(std::string_view key, F each) {
    const nlohmann::json* value = Take(key, /*required=*/false);
    if (value == nullptr) return;
    if (!value->is_array()) return Fail(key, "must be an array");
    for (const auto& entry : *value) {
      if (!status_.ok()) return;
      Adopt(each(entry));
    }
  }
  // Reads a nested document with `parse(json)` -> StatusOr<T>.
  template <typename T, typename F>
  void Nested(std::string_view key, T& out, F parse) {
    if (const nlohmann::json* value = Take(key, /*required=*/true)) Unwrap(parse(*value), out);
  }
  template <typename T, typename F>
  void NestedOptional(std::string_view key, std::optional<T>& out, F parse) {
    if (const nlohmann::json* value = Take(key, /*required=*/false)) {
      T parsed;
      Unwrap(parse(*value), parsed);
      if (status_.ok()) out = std::move(parsed);
    }
  }

  void Fail(std::string_view key, std::string_view message);
  // Keeps `status` as the mistake if it is the first.
  void Adopt(absl::Status status);
  bool ok() const { return status_.ok(); }
  // The first mistake; unknown keys count.
  absl::Status Finish();

 private:
  // Marks `key` as known; null when absent, when it is null-and-optional, or after a mistake.
  const nlohmann::json* Take(std::string_view key, bool required);

  template <typename S, typename T>
  void Unwrap(S parsed, T& out) {
    if (parsed.ok()) {
      out = *std::move(parsed);
    } else {
      Adopt(parsed.status());
    }
  }

  void Convert(std::string_view key, const nlohmann::json& value, bool& out);
  void Convert(std::string_view key, const nlohmann::json& value, double& out);
  void Convert(std::string_view key, const nlohmann::json& value, std::string& out);
  void Convert(std::string_view key, const nlohmann::json& value, std::int64_t& out);
  void Convert(std::string_view key, const nlohmann::json& value, std::uint64_t& out);
  void Convert(std::string_view key, const nlohmann::json& value, nlohmann::json& out);
  template <std::integral T>
  void Convert(std::string_view key, const nlohmann::json& value, T& out) {
    std::int64_t wide = 0;
    Convert(key, value, wide);
    if (!status_.ok()) return;
    if (wide < std::int64_t{std::numeric_limits<T>::min()} ||
        wide > std::int64_t{std::numeric_limits<T>::max()}) {
      return Fail(key, "out of range");
    }
    out = static_cast<T>(wide);
  }
  template <typename T>
  void Convert(std::string_view key, const nlohmann::json& value, std::vector<T>& out) {
    if (!value.is_array()) return Fail(key, "must be an array");
    std::vector<T> entries(value.size());
    for (std::size_t i = 0; i < entries.size(); ++i) Convert(key, value[i], entries[i]);
    if (status_.ok()) out = std::move(entries);
  }
  template <typename A, typename B>
  void Convert(std::string_view key, const nlohmann::json& value, std::pair<A, B>& out) {
    if (!value.is_array() || value.size() != 2) return Fail(key, "must be a pair");
    Convert(key, value[0], out.first);
    Convert(key, value[1], out.second);
  }
  template <typename T, std::size_t N>
  void Convert(std::string_view key, const nlohmann::json& value, std::array<T, N>& out) {
    if (!value.is_array() || value.size() != N) {
      return Fail(key, "must have " + std::to_string(N) + " entries");
    }
    for (std::size_t i = 0; i < N; ++i) Convert(key, value[i], out[i]);
  }

  const nlohmann::json& json_;
  std::string what_;
  std::set<std::string, std::less<>> known_;
  absl::Status status_;
};

}  // namespace fettle
