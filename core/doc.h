// SPDX-License-Identifier: Apache-2.0
#pragma once

// A document tree with places: what the parsers of task files and kernel blocks read, whether it
// came from YAML (with lines and columns) or from JSON (without).

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/expr.h"
#include "core/task.h"

namespace fettle {

struct DocEntry;

struct Doc {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string text;               // kScalar.
  bool quoted = false;            // kScalar: written in quotes (a string in JSON).
  int line = 0, column = 0;       // From 1; 0: no place.
  std::vector<Doc> items;         // kList.
  std::vector<DocEntry> entries;  // kMap, in the order written.

  const Doc* Find(std::string_view key) const;
};

struct DocEntry {
  std::string key;
  int line = 0, column = 0;
  Doc value;
};

// Collects mistakes of one file.
class Problems {
 public:
  // `out` must outlive this object.
  Problems(std::string file, std::vector<TaskProblem>* out) : file_(std::move(file)), out_(out) {}

  void Add(int line, int column, std::string field, std::string message);
  void Add(const Doc& at, std::string field, std::string message) {
    Add(at.line, at.column, std::move(field), std::move(message));
  }
  std::size_t count() const { return out_->size(); }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::vector<TaskProblem>* out_;
};

// Parses one YAML document. Duplicate keys, anchors, tags and second documents are problems. Null
// when the text is no YAML at all.
std::optional<Doc> DocFromYaml(std::string_view text, Problems& problems);
Doc DocFromJson(const nlohmann::json& json);

// "did you mean 'x'?", or the list of known names where nothing is near.
std::string Suggest(std::string_view name, const std::set<std::string>& known);

// Whether `text` is a name: letters, digits and underscores, not starting with a digit.
bool IsIdentifier(std::string_view text);

// Reads the fields of a map. Unknown ones are problems, reported by Finish.
class Fields {
 public:
  // `doc` and `problems` must outlive this object. `path` names the map in messages ("args.x").
  Fields(const Doc& doc, std::string path, Problems& problems);

  bool valid() const { return valid_; }
  // Null where absent.
  const Doc* Find(const std::string& key);
  // Null where absent, which is a problem; `remedy` says what to write.
  const Doc* Need(const std::string& key, std::string_view remedy);
  std::string PathOf(const std::string& key) const;
  void Finish();

  const Doc& doc() const { return doc_; }
  Problems& problems() { return problems_; }

 private:
  const Doc& doc_;
  std::string path_;
  Problems& problems_;
  std::set<std::string> known_;
  bool valid_ = false;
};

// Readers of single values; a mistake is reported and gives nullopt.
std::optional<std::string> ReadText(const Doc& doc, const std::string& path, Problems& problems);
std::optional<std::string> ReadIdentifier(const Doc& doc, const std::string& path,
                                          Problems& problems);
// A whole number or a constant expression ("2^20").
std::optional<std::int64_t> ReadInteger(const Doc& doc, const std::string& path,
                                        Problems& problems);
std::optional<double> ReadReal(const Doc& doc, const std::string& path, Problems& problems);
std::optional<bool> ReadBool(const Doc& doc, const std::string& path, Problems& problems);
// An expression whose names are all in `names`; `what` says what those are ("dims").
std::optional<Expr> ReadExpr(const Doc& doc, const std::string& path,
                             const std::set<std::string>& names, std::string_view what,
                             Problems& problems);
// A list of them; nothing when any is wrong.
std::optional<std::vector<Expr>> ReadExprs(const Doc& doc, const std::string& path,
                                           const std::set<std::string>& names,
                                           std::string_view what, Problems& problems);
// The items of a list; null and a problem when it is none.
const std::vector<Doc>* ReadList(const Doc& doc, const std::string& path, Problems& problems);
// One of `choices`.
std::optional<std::string> ReadChoice(const Doc& doc, const std::string& path,
                                      const std::set<std::string>& choices, Problems& problems);

// The number that `text` spells in full, if it does.
std::optional<double> ParseReal(std::string_view text);

}  // namespace fettle
