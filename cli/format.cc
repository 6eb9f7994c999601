// SPDX-License-Identifier: Apache-2.0
#include "cli/format.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "cli/terminal.h"
#include "core/json_text.h"
#include "core/text.h"

namespace fettle {
namespace {

// Three significant digits, never in exponent form.
std::string ThreeDigits(double value) {
  const double magnitude = std::fabs(value);
  if (magnitude >= 99.95) return fmt::format("{:.0f}", value);
  if (magnitude >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

std::string Scaled(double value, const std::string& unit) {
  static constexpr std::array<const char*, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t step = 0;
  while (std::fabs(value) >= 999.5 && step + 1 < kPrefixes.size()) {
    value /= 1000;
    ++step;
  }
  return fmt::format("{} {}{}", ThreeDigits(value), kPrefixes[step], unit);
}

}  // namespace

std::string FormatRatio(double ratio) {
  return ratio > 0 ? fmt::format("{:.3f}x", ratio) : std::string("-");
}

std::string FormatInterval(double ratio, double low, double high) {
  if (ratio <= 0) return "-";
  return fmt::format("{:.3f}x [{:.3f}, {:.3f}]", ratio, low, high);
}

std::string FormatDuration(double ns) {
  if (ns < 999.5) return fmt::format("{:.0f} ns", ns);
  if (ns < 999.5e3) return ThreeDigits(ns / 1e3) + " us";
  if (ns < 999.5e6) return ThreeDigits(ns / 1e6) + " ms";
  if (ns < 600e9) return ThreeDigits(ns / 1e9) + " s";
  return fmt::format("{:.1f} min", ns / 60e9);
}

std::string FormatRate(double per_s, const std::string& unit) {
  return per_s > 0 ? Scaled(per_s, unit) : std::string("-");
}

std::string FormatBytes(double bytes) {
  return bytes < 1000 ? fmt::format("{:.0f} B", bytes) : Scaled(bytes, "B");
}

std::string FormatPercent(double fraction) {
  return fraction > 0 ? fmt::format("{:.0f} %", fraction * 100) : std::string("-");
}

std::string FormatCount(std::int64_t count) {
  const std::string digits = fmt::format("{}", count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    text += digits[i];
    const std::size_t left = digits.size() - 1 - i;
    if (left > 0 && left % 3 == 0 && digits[i] != '-') text += ',';
  }
  return text;
}

std::string FormatAge(std::int64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

std::string FormatValues(const nlohmann::json& values) {
  if (!values.is_object())
    return values.is_null() ? "-" : Printable(values.dump(-1, ' ', false, kReplaceInvalid));
  std::string text;
  for (const auto& [name, value] : values.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name,
                        value.dump(-1, ' ', false, kReplaceInvalid));
  }
  return text.empty() ? "-" : Printable(text);
}

std::string FormatValuesText(const std::string& values_json) {
  const nlohmann::json values = ParseJson(values_json);
  return values.is_discarded() ? "-" : FormatValues(values);
}

std::string ShortId(const std::string& id) { return id.substr(0, 12); }

const nlohmann::json& MemberOf(const nlohmann::json& json, const std::string& key) {
  static const nlohmann::json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(key);
  return found == json.end() ? kNull : *found;
}

std::string TextOf(const nlohmann::json& json, const std::string& key, std::string otherwise) {
  const nlohmann::json& member = MemberOf(json, key);
  return member.is_string() ? member.get<std::string>() : std::move(otherwise);
}

double NumberOf(const nlohmann::json& json, const std::string& key, double otherwise) {
  const nlohmann::json& member = MemberOf(json, key);
  return member.is_number() ? member.get<double>() : otherwise;
}

}  // namespace fettle
