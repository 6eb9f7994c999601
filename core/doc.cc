// SPDX-License-Identifier: Apache-2.0
#include "core/doc.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace fettle {
namespace {

// Levenshtein distance, small strings.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t cost = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({cost, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string_view KindName(const Doc& doc) {
  switch (doc.kind) {
    case Doc::Kind::kNull:
      return "nothing";
    case Doc::Kind::kScalar:
      return "a single value";
    case Doc::Kind::kList:
      return "a list";
    case Doc::Kind::kMap:
      return "a map";
  }
  return "";
}

// The place of column `column` (from 1) within a scalar's text.
int ColumnWithin(const Doc& doc, int column) {
  return doc.column == 0 ? 0 : doc.column + (doc.quoted ? 1 : 0) + column - 1;
}

// "column 5 of 'a + ': expected ..." -> 5 and "expected ...".
std::pair<int, std::string> SplitColumn(const std::string& message) {
  int column = 1;
  constexpr std::string_view kPrefix = "column ";
  if (message.rfind(kPrefix, 0) == 0) {
    std::from_chars(message.data() + kPrefix.size(), message.data() + message.size(), column);
  }
  return {column, message};
}

}  // namespace

const Doc* Doc::Find(std::string_view key) const {
  for (const DocEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

void Problems::Add(int line, int column, std::string field, std::string message) {
  constexpr std::size_t kMost = 100;  // More help nobody.
  if (out_->size() >= kMost) return;
  if (line <= 0 || column < 0) line = column = 0;
  out_->push_back({file_, line, column, std::move(field), std::move(message)});
}

Doc DocFromJson(const nlohmann::json& json) {
  Doc doc;
  if (json.is_object()) {
    doc.kind = Doc::Kind::kMap;
    for (auto it = json.begin(); it != json.end(); ++it) {
      doc.entries.push_back({it.key(), 0, 0, DocFromJson(it.value())});
    }
  } else if (json.is_array()) {
    doc.kind = Doc::Kind::kList;
    for (const auto& item : json) doc.items.push_back(DocFromJson(item));
  } else if (json.is_string()) {
    doc.kind = Doc::Kind::kScalar;
    doc.text = json.get<std::string>();
    doc.quoted = true;
  } else if (!json.is_null()) {
    doc.kind = Doc::Kind::kScalar;
    doc.text = json.dump();
  }
  return doc;
}

std::string Suggest(std::string_view name, const std::set<std::string>& known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(1, std::min<std::size_t>(3, name.size() / 3 + 1)) + 1;
  for (const std::string& candidate : known) {
    if (candidate.size() > 64 || name.size() > 64) continue;
    const std::size_t distance = Distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  if (!best.empty()) return fmt::format("did you mean '{}'?", best);
  if (known.empty()) return "there is none here";
  return fmt::format("known: {}", fmt::join(known, ", "));
}

bool IsIdentifier(std::string_view text) {
  if (text.empty() || text.size() > 64 || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

Fields::Fields(const Doc& doc, std::string path, Problems& problems)
    : doc_(doc), path_(std::move(path)), problems_(problems), valid_(doc.kind == Doc::Kind::kMap) {
  if (!valid_) {
    problems_.Add(doc_, path_,
                  fmt::format("{} must be a map of fields, not {}",
                              path_.empty() ? "the file" : path_, KindName(doc_)));
  }
}

std::string Fields::PathOf(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

const Doc* Fields::Find(const std::string& key) {
  known_.insert(key);
  return doc_.Find(key);
}

const Doc* Fields::Need(const std::string& key, std::string_view remedy) {
  const Doc* found = Find(key);
  if (found == nullptr && valid_) {
    problems_.Add(doc_, PathOf(key), fmt::format("{} is missing; {}", PathOf(key), remedy));
  }
  return found;
}

void Fields::Finish() {
  for (const DocEntry& entry : doc_.entries) {
    if (known_.contains(entry.key)) continue;
    problems_.Add(entry.line, entry.column, PathOf(entry.key),
                  fmt::format("unknown field '{}'; {}", entry.key, Suggest(entry.key, known_)));
  }
}

std::optional<std::string> ReadText(const Doc& doc, const std::string& path, Problems& problems) {
  if (doc.kind == Doc::Kind::kScalar) return doc.text;
  problems.Add(doc, path, fmt::format("{} must be text, not {}", path, KindName(doc)));
  return std::nullopt;
}

std::optional<std::string> ReadIdentifier(const Doc& doc, const std::string& path,
                                          Problems& problems) {
  std::optional<std::string> text = ReadText(doc, path, problems);
  if (!text || IsIdentifier(*text)) return text;
  problems.Add(doc, path,
               fmt::format("{} must be a name of letters, digits and underscores, not '{}'", path,
                           text->substr(0, 80)));
  return std::nullopt;
}

std::optional<std::int64_t> ReadInteger(const Doc& doc, const std::string& path,
                                        Problems& problems) {
  const std::optional<Expr> expr = ReadExpr(doc, path, {}, "a whole number", problems);
  if (!expr) return std::nullopt;
  const absl::StatusOr<std::int64_t> value = expr->Evaluate({});
  if (value.ok()) return *value;
  problems.Add(doc, path, fmt::format("{}: {}", path, std::string(value.status().message())));
  return std::nullopt;
}

std::optional<double> ParseReal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> ReadReal(const Doc& doc, const std::string& path, Problems& problems) {
  if (doc.kind == Doc::Kind::kScalar) {
    if (const auto value = ParseReal(doc.text)) return value;
  }
  problems.Add(
      doc, path,
      fmt::format("{} must be a number, not {}", path,
                  doc.kind == Doc::Kind::kScalar ? fmt::format("'{}'", doc.text.substr(0, 80))
                                                 : std::string(KindName(doc))));
  return std::nullopt;
}

std::optional<bool> ReadBool(const Doc& doc, const std::string& path, Problems& problems) {
  if (doc.kind == Doc::Kind::kScalar && (doc.text == "true" || doc.text == "false")) {
    return doc.text == "true";
  }
  problems.Add(doc, path, fmt::format("{} must be true or false", path));
  return std::nullopt;
}

std::optional<Expr> ReadExpr(const Doc& doc, const std::string& path,
                             const std::set<std::string>& names, std::string_view what,
                             Problems& problems) {
  if (doc.kind != Doc::Kind::kScalar) {
    problems.Add(doc, path, fmt::format("{} must be an expression, not {}", path, KindName(doc)));
    return std::nullopt;
  }
  absl::StatusOr<Expr> expr = Expr::Parse(doc.text);
  if (!expr.ok()) {
    const auto [column, message] = SplitColumn(std::string(expr.status().message()));
    problems.Add(doc.line, ColumnWithin(doc, column), path, fmt::format("{}: {}", path, message));
    return std::nullopt;
  }
  bool known = true;
  for (const std::string& name : expr->Names()) {
    if (names.contains(name)) continue;
    known = false;
    const auto at = doc.text.find(name.substr(0, name.find('(')));
    problems.Add(
        doc.line, ColumnWithin(doc, static_cast<int>(at == std::string::npos ? 0 : at) + 1), path,
        names.empty() ? fmt::format("{} must be {}, not '{}'", path, what, doc.text)
                      : fmt::format("{}: '{}' is not one of the {} that may stand here; {}", path,
                                    name, what, Suggest(name, names)));
  }
  if (!known) return std::nullopt;
  return *std::move(expr);
}

std::optional<std::vector<Expr>> ReadExprs(const Doc& doc, const std::string& path,
                                           const std::set<std::string>& names,
                                           std::string_view what, Problems& problems) {
  const std::vector<Doc>* items = ReadList(doc, path, problems);
  if (items == nullptr) return std::nullopt;
  std::vector<Expr> out;
  for (std::size_t i = 0; i < items->size(); ++i) {
    auto expr = ReadExpr((*items)[i], fmt::format("{}[{}]", path, i), names, what, problems);
    if (expr) out.push_back(*std::move(expr));
  }
  if (out.size() != items->size()) return std::nullopt;
  return out;
}

const std::vector<Doc>* ReadList(const Doc& doc, const std::string& path, Problems& problems) {
  if (doc.kind == Doc::Kind::kList) return &doc.items;
  problems.Add(doc, path, fmt::format("{} must be a list, not {}", path, KindName(doc)));
  return nullptr;
}

std::optional<std::string> ReadChoice(const Doc& doc, const std::string& path,
                                      const std::set<std::string>& choices, Problems& problems) {
  std::optional<std::string> text = ReadText(doc, path, problems);
  if (!text || choices.contains(*text)) return text;
  problems.Add(doc, path,
               fmt::format("{}: '{}' is not a choice here; {}", path, text->substr(0, 80),
                           Suggest(*text, choices)));
  return std::nullopt;
}

}  // namespace fettle
