// SPDX-License-Identifier: Apache-2.0
#include "verifier/reference_store.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "core/digest.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTrimEvery = 16;  // In parts of the limit.
constexpr std::string_view kMagic = "fettle-expected-1\n";

// Length-prefixed values, little-endian as in memory.
class Writer {
 public:
  void Number(std::int64_t value) { text_.append(reinterpret_cast<const char*>(&value), 8); }
  template <typename T>
  void Items(const T& items) {
    Number(static_cast<std::int64_t>(items.size()));
    if (!items.empty()) {
      text_.append(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(items[0]));
    }
  }
  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  std::int64_t Number() {
    std::int64_t value = 0;
    Raw(&value, 1);
    return value;
  }
  template <typename T>
  void Items(T* items) {
    const std::int64_t count = Number();
    if (!ok_ || count < 0 || static_cast<std::size_t>(count) > text_.size()) {
      ok_ = false;
      return;
    }
    items->resize(static_cast<std::size_t>(count));
    Raw(items->data(), items->size());
  }
  bool ok() const { return ok_; }
  bool at_end() const { return text_.empty(); }

 private:
  template <typename T>
  void Raw(T* to, std::size_t count) {
    if (!ok_ || count > text_.size() / sizeof(T)) {
      ok_ = false;
      return;
    }
    if (count > 0) std::memcpy(to, text_.data(), count * sizeof(T));
    text_.remove_prefix(count * sizeof(T));
  }
  std::string_view text_;
  bool ok_ = true;
};

std::string Pack(const Expected& expected) {
  Writer writer;
  writer.Number(static_cast<std::int64_t>(expected.outputs.size()));
  for (const ExpectedOutput& output : expected.outputs) {
    writer.Items(output.name);
    writer.Number(output.tensor);
    writer.Number(output.row_elements);
    writer.Items(output.rows);
    writer.Items(output.values);
    writer.Items(output.magnitude);
    writer.Items(output.length);
    writer.Items(output.bytes);
  }
  return std::move(writer.text_);
}

std::optional<Expected> Unpack(std::string_view text) {
  Reader reader(text);
  const std::int64_t count = reader.Number();
  if (count < 0 || count > 1 << 20) return std::nullopt;
  Expected expected;
  for (std::int64_t i = 0; i < count && reader.ok(); ++i) {
    ExpectedOutput& output = expected.outputs.emplace_back();
    reader.Items(&output.name);
    output.tensor = reader.Number();
    output.row_elements = reader.Number();
    reader.Items(&output.rows);
    reader.Items(&output.values);
    reader.Items(&output.magnitude);
    reader.Items(&output.length);
    reader.Items(&output.bytes);
  }
  if (!reader.ok() || !reader.at_end()) return std::nullopt;
  return expected;
}

// Removes the oldest files until the folder fits.
void Trim(const fs::path& folder, std::int64_t limit_bytes) {
  struct Entry {
    fs::file_time_type time;
    fs::path path;
    std::int64_t size;
  };
  std::vector<Entry> entries;
  std::int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code one;
    const auto size = static_cast<std::int64_t>(it->file_size(one));
    const auto time = it->last_write_time(one);
    if (one) continue;
    entries.push_back({time, it->path(), size});
    total += size;
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& entry : entries) {
    if (total <= limit_bytes) break;
    fs::remove(entry.path, error);
    total -= entry.size;
  }
}

}  // namespace

ReferenceStore::ReferenceStore(const std::string& cache_dir, std::int64_t limit_bytes)
    : folder_(cache_dir.empty() ? "" : (fs::path(cache_dir) / "expected").string()),
      limit_bytes_(limit_bytes) {}

std::optional<Expected> ReferenceStore::Get(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream in(fs::path(folder_) / key, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream buffer;
  buffer << in.rdbuf();
  const std::string text = std::move(buffer).str();
  const std::size_t head = kMagic.size() + 64;
  if (text.size() < head || text.compare(0, kMagic.size(), kMagic) != 0) return std::nullopt;
  const std::string_view body = std::string_view(text).substr(head);
  if (text.compare(kMagic.size(), 64, Sha256Hex(body)) != 0) return std::nullopt;
  return Unpack(body);
}

void ReferenceStore::Put(const std::string& key, const Expected& expected) {
  if (folder_.empty() || expected.bytes() > limit_bytes_ / 4) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  const std::string body = Pack(expected);
  const fs::path partial = fs::path(folder_) / fmt::format("{}.{}", key, getpid());
  {
    std::ofstream out(partial, std::ios::binary);
    out << kMagic << Sha256Hex(body);
    out.write(body.data(), static_cast<std::streamsize>(body.size()));
    if (!out.good()) {
      fs::remove(partial, error);
      return;
    }
  }
  fs::rename(partial, fs::path(folder_) / key, error);
  // Looking through thousands of files takes longer than most results do.
  if (until_trim_.fetch_sub(static_cast<std::int64_t>(body.size())) > 0) return;
  until_trim_ = limit_bytes_ / kTrimEvery;
  Trim(folder_, limit_bytes_ - limit_bytes_ / kTrimEvery);
}

}  // namespace fettle
