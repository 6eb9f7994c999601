// SPDX-License-Identifier: Apache-2.0
// YAML to Doc through yaml-cpp's event interface, which keeps places and duplicate keys.

#include <sstream>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "core/doc.h"

namespace fettle {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxDepth = 32;

class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(Problems& problems) : problems_(problems) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAnchor(mark, anchor);
    Put(Place(mark, Doc::Kind::kNull));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    RefuseAnchor(mark, 1);
    Put(Place(mark, Doc::Kind::kNull));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    Doc doc = Place(mark, Doc::Kind::kScalar);
    doc.quoted = tag == "!";
    doc.text = value;
    if (!doc.quoted && (value == "~" || value == "null")) doc.kind = Doc::Kind::kNull;
    Put(std::move(doc));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Doc::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Doc::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

  std::optional<Doc> Take() { return std::move(root_); }
  bool too_deep() const { return too_deep_; }

 private:
  struct Level {
    Doc doc;
    std::optional<DocEntry> key;  // In a map: the key whose value comes next.
  };

  static Doc Place(const YAML::Mark& mark, Doc::Kind kind) {
    Doc doc;
    doc.kind = kind;
    doc.line = mark.line + 1;
    doc.column = mark.column + 1;
    return doc;
  }
  void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == 0) return;
    problems_.Add(mark.line + 1, mark.column + 1, "",
                  "anchors and aliases are not part of the format; write the value out");
  }
  void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    problems_.Add(mark.line + 1, mark.column + 1, "",
                  fmt::format("tags such as '{}' are not part of the format; remove it", tag));
  }
  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Doc::Kind kind) {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    too_deep_ |= levels_.size() >= kMaxDepth;
    levels_.push_back({Place(mark, kind), std::nullopt});
  }
  void Close() {
    Doc doc = std::move(levels_.back().doc);
    levels_.pop_back();
    Put(std::move(doc));
  }
  void Put(Doc doc) {
    if (levels_.empty()) {
      root_ = std::move(doc);
      return;
    }
    Level& level = levels_.back();
    if (level.doc.kind == Doc::Kind::kList) {
      level.doc.items.push_back(std::move(doc));
    } else if (!level.key) {
      if (doc.kind != Doc::Kind::kScalar && doc.kind != Doc::Kind::kNull) {
        problems_.Add(doc, "", "a key must be a plain name");
      }
      level.key = DocEntry{doc.text, doc.line, doc.column, {}};
    } else {
      Close(level, std::move(doc));
    }
  }
  void Close(Level& level, Doc value) {
    DocEntry entry = *std::move(level.key);
    level.key.reset();
    for (const DocEntry& other : level.doc.entries) {
      if (other.key != entry.key) continue;
      problems_.Add(
          entry.line, entry.column, entry.key,
          fmt::format("'{}' stands here twice, first in line {}; keep one", entry.key, other.line));
      return;
    }
    entry.value = std::move(value);
    level.doc.entries.push_back(std::move(entry));
  }

  Problems& problems_;
  std::vector<Level> levels_;
  std::optional<Doc> root_;
  bool too_deep_ = false;
};

}  // namespace

std::optional<Doc> DocFromYaml(std::string_view text, Problems& problems) {
  if (text.size() > kMaxBytes) {
    problems.Add(0, 0, "",
                 fmt::format("the file has {} bytes; at most {}", text.size(), kMaxBytes));
    return std::nullopt;
  }
  std::istringstream stream{std::string(text)};
  Builder builder(problems);
  try {  // yaml-cpp reports by exception; none leaves this function.
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      problems.Add(1, 1, "", "the file is empty; it needs a map of 'field: value' lines");
      return std::nullopt;
    }
    std::optional<Doc> doc = builder.Take();
    Builder second(problems);
    if (parser.HandleNextDocument(second)) {
      problems.Add(1, 1, "", "the file holds more than one document; keep one");
    }
    if (builder.too_deep()) {
      problems.Add(1, 1, "", fmt::format("nested more than {} deep", kMaxDepth));
      return std::nullopt;
    }
    return doc;
  } catch (const YAML::Exception& error) {
    problems.Add(error.mark.line + 1, error.mark.column + 1, "",
                 fmt::format("this is no valid YAML: {}", error.msg));
  } catch (const std::exception& error) {
    problems.Add(0, 0, "", fmt::format("this is no valid YAML: {}", error.what()));
  }
  return std::nullopt;
}

}  // namespace fettle
