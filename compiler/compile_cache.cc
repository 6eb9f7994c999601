// SPDX-License-Identifier: Apache-2.0
#include "compiler/compile_cache.h"

#include <algorithm>
#include <atomic>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/files.h"
#include "core/digest.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

// Part of every key and entry: a change of either makes all old entries unknown.
constexpr int kFormat = 1;
constexpr std::string_view kMagic = "fettle-compile-1\n";
// Evicting goes below the limit by this part, so that it does not happen at every store.
constexpr double kRefillRoom = 0.1;
// Temporary files of writers that were killed are swept after this long.
constexpr std::chrono::minutes kStaleTemporary{10};

// Length-prefixed fields, so that no two requests give the same bytes.
class FieldWriter {
 public:
  void Text(std::string_view text) {
    Number(static_cast<std::int64_t>(text.size()));
    bytes_.append(text);
  }
  void Number(std::int64_t value) {
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what FieldWriter wrote; ok() is false once anything was missing.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : bytes_(bytes) {}
  std::int64_t Number() {
    if (bytes_.size() < 8) return Fail();
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
    }
    bytes_.remove_prefix(8);
    return static_cast<std::int64_t>(value);
  }
  std::string Text() {
    const std::int64_t size = Number();
    if (size < 0 || static_cast<std::uint64_t>(size) > bytes_.size()) {
      Fail();
      return {};
    }
    std::string text(bytes_.substr(0, static_cast<std::size_t>(size)));
    bytes_.remove_prefix(static_cast<std::size_t>(size));
    return text;
  }
  // A count of things of which each takes at least 8 bytes.
  std::size_t Count() {
    const std::int64_t count = Number();
    if (count < 0 || static_cast<std::uint64_t>(count) > bytes_.size() / 8) Fail();
    return ok_ ? static_cast<std::size_t>(count) : 0;
  }
  bool ok() const { return ok_; }

 private:
  std::int64_t Fail() {
    ok_ = false;
    bytes_ = {};
    return 0;
  }
  std::string_view bytes_;
  bool ok_ = true;
};

// One evicting process at a time; the others go on without.
class EvictionLock {
 public:
  explicit EvictionLock(const std::string& folder)
      : fd_(open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    held_ = fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0;
  }
  ~EvictionLock() {
    if (fd_ >= 0) close(fd_);
  }
  EvictionLock(const EvictionLock&) = delete;
  EvictionLock& operator=(const EvictionLock&) = delete;
  bool held() const { return held_; }

 private:
  int fd_;
  bool held_ = false;
};

class DiskCompileCache final : public CompileCache {
 public:
  explicit DiskCompileCache(CompileCacheOptions options) : options_(std::move(options)) {
    known_bytes_ = SizeBytes();
  }

  std::optional<CompileResult> Find(const std::string& key) override {
    const std::string path = PathOf(key);
    const absl::StatusOr<std::string> bytes = ReadFile(path);
    if (!bytes.ok()) return std::nullopt;
    std::optional<CompileResult> result = UnpackCompileResult(key, *bytes);
    if (!result.has_value()) {
      unlink(path.c_str());
      return std::nullopt;
    }
    utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // Used now.
    return result;
  }

  void Store(const std::string& key, const CompileResult& result) override {
    const std::string bytes = PackCompileResult(key, result);
    const std::int64_t size = static_cast<std::int64_t>(bytes.size());
    if (size > options_.max_bytes) return;
    if (!WriteFileAtomically(PathOf(key), bytes).ok()) return;
    if (known_bytes_.fetch_add(size) + size > options_.max_bytes) Evict();
  }

  std::int64_t SizeBytes() override {
    std::int64_t total = 0;
    for (const Entry& entry : List()) total += entry.size;
    return total;
  }

 private:
  struct Entry {
    std::string path;
    std::int64_t size = 0;
    std::int64_t used_ns = 0;
    bool temporary = false;
  };

  // Two levels, so that no folder grows large.
  std::string PathOf(const std::string& key) const {
    return fmt::format("{}/{}/{}", options_.folder, key.substr(0, 2), key.substr(2));
  }

  std::vector<Entry> List() const {
    std::vector<Entry> entries;
    std::error_code error;
    std::filesystem::recursive_directory_iterator at(options_.folder, error), end;
    while (!error && at != end) {
      const std::string path = at->path();
      struct stat info = {};
      if (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && !path.ends_with("/lock")) {
        entries.push_back({path, info.st_size,
                           info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec,
                           path.find(".tmp.") != std::string::npos});
      }
      at.increment(error);
    }
    return entries;
  }

  void Evict() {
    const EvictionLock lock(options_.folder);
    if (!lock.held()) return;
    std::vector<Entry> entries = List();
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.used_ns < b.used_ns; });
    std::int64_t total = 0;
    for (const Entry& entry : entries) total += entry.size;
    const std::int64_t stale =
        std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::system_clock::now().time_since_epoch() - kStaleTemporary)
            .count();
    const auto goal = total <= options_.max_bytes
                          ? options_.max_bytes
                          : static_cast<std::int64_t>(static_cast<double>(options_.max_bytes) *
                                                      (1 - kRefillRoom));
    for (const Entry& entry : entries) {
      const bool sweep = entry.temporary && entry.used_ns < stale;
      if (!sweep && (total <= goal || entry.temporary)) continue;
      if (unlink(entry.path.c_str()) == 0) total -= entry.size;
    }
    known_bytes_ = total;
  }

  CompileCacheOptions options_;
  // What this process believes the folder holds; other processes add to it unseen, so it is
  // corrected at each eviction.
  std::atomic<std::int64_t> known_bytes_{0};
};

class CachingCompiler final : public KernelCompiler {
 public:
  CachingCompiler(KernelCompiler& compiler, CompileCache& cache)
      : compiler_(compiler), cache_(cache) {}

  std::string_view name() const override { return compiler_.name(); }
  std::string identity() const override { return compiler_.identity(); }
  bool Supports(const Target& target) const override { return compiler_.Supports(target); }

  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        std::stop_token stop) override {
    if (stop.stop_requested()) return absl::CancelledError("compile: stopped");
    const auto start = std::chrono::steady_clock::now();
    const std::string key = CompileKey(compiler_, request);
    if (std::optional<CompileResult> found = cache_.Find(key); found.has_value()) {
      found->elapsed = std::chrono::steady_clock::now() - start;
      return *std::move(found);
    }
    absl::StatusOr<CompileResult> result = compiler_.Compile(request, std::move(stop));
    if (result.ok() && result->repeatable) cache_.Store(key, *result);
    return result;
  }

 private:
  KernelCompiler& compiler_;
  CompileCache& cache_;
};

}  // namespace

std::string PackCompileResult(const std::string& key, const CompileResult& result) {
  FieldWriter out;
  out.Text(key);
  out.Number(result.accepted ? 1 : 0);
  out.Text(result.code_object);
  out.Number(static_cast<std::int64_t>(result.symbols.size()));
  for (const std::string& symbol : result.symbols) out.Text(symbol);
  out.Number(static_cast<std::int64_t>(result.diagnostics.size()));
  for (const Diagnostic& d : result.diagnostics) {
    out.Text(d.file);
    out.Number(d.line);
    out.Number(d.column);
    out.Text(d.severity);
    out.Text(d.text);
  }
  out.Text(result.log);
  out.Text(result.compiler);
  out.Number(result.elapsed.count());
  const std::string body = out.Take();
  return std::string(kMagic) + Sha256Hex(body) + body;
}

std::optional<CompileResult> UnpackCompileResult(const std::string& key, std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + 64) return std::nullopt;
  const std::string_view digest = bytes.substr(kMagic.size(), 64);
  const std::string_view body = bytes.substr(kMagic.size() + 64);
  if (Sha256Hex(body) != digest) return std::nullopt;
  FieldReader in(body);
  if (in.Text() != key) return std::nullopt;
  CompileResult result;
  result.accepted = in.Number() != 0;
  result.code_object = in.Text();
  for (std::size_t n = in.Count(); n > 0; --n) result.symbols.push_back(in.Text());
  for (std::size_t n = in.Count(); n > 0; --n) {
    Diagnostic d;
    d.file = in.Text();
    d.line = static_cast<int>(in.Number());
    d.column = static_cast<int>(in.Number());
    d.severity = in.Text();
    d.text = in.Text();
    result.diagnostics.push_back(std::move(d));
  }
  result.log = in.Text();
  result.compiler = in.Text();
  result.elapsed = std::chrono::nanoseconds(in.Number());
  if (!in.ok()) return std::nullopt;
  result.cache_hit = true;
  return result;
}

absl::StatusOr<std::unique_ptr<CompileCache>> CompileCache::Open(CompileCacheOptions options) {
  if (options.folder.empty()) return absl::InvalidArgumentError("compile cache: no folder given");
  FETTLE_RETURN_IF_ERROR(MakeFolders(options.folder));
  return std::make_unique<DiskCompileCache>(std::move(options));
}

std::string CompileKey(const KernelCompiler& compiler, const CompileRequest& request) {
  FieldWriter out;
  out.Number(kFormat);
  out.Text(compiler.name());
  out.Text(compiler.identity());
  out.Text(request.target.name);
  out.Number(static_cast<std::int64_t>(request.dialect));
  out.Number(static_cast<std::int64_t>(request.mode));
  out.Number(request.lanes);
  out.Text(request.source_name);  // It is in diagnostics, in __FILE__ and in line tables.
  out.Text(request.source);
  const auto pairs = [&out](const std::vector<std::pair<std::string, std::string>>& list) {
    out.Number(static_cast<std::int64_t>(list.size()));
    for (const auto& [name, text] : list) {
      out.Text(name);
      out.Text(text);
    }
  };
  pairs(request.headers);
  pairs(request.macros);
  for (const auto* list : {&request.entries, &request.options}) {
    out.Number(static_cast<std::int64_t>(list->size()));
    for (const std::string& text : *list) out.Text(text);
  }
  return Sha256Hex(out.Take());
}

std::unique_ptr<KernelCompiler> MakeCachingCompiler(KernelCompiler& compiler, CompileCache& cache) {
  return std::make_unique<CachingCompiler>(compiler, cache);
}

}  // namespace fettle
