// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/kernel_compiler.h"

namespace fettle {

struct CompileCacheOptions {
  std::string folder;                              // Created when missing.
  std::int64_t max_bytes = std::int64_t{2} << 30;  // Least recently used entries go first.
};

// What the caches of this machine share: results of compiles, one file each, in a folder that
// processes use at once. A reader sees a whole entry or none, also after a writer was killed;
// damaged entries count as missing and are removed.
//
// Thread-safe. Trouble with the disk costs the caching, never the compile.
class CompileCache {
 public:
  // kInvalidArgument: no folder given; else as files.h when it cannot be made.
  static absl::StatusOr<std::unique_ptr<CompileCache>> Open(CompileCacheOptions options);
  virtual ~CompileCache() = default;

  // Absent: nothing stored, or it was damaged.
  virtual std::optional<CompileResult> Find(const std::string& key) = 0;
  virtual void Store(const std::string& key, const CompileResult& result) = 0;
  // Bytes of all entries on disk, counted now.
  virtual std::int64_t SizeBytes() = 0;
};

// A result as the bytes of an entry, and back; absent where they are damaged, or of another key.
std::string PackCompileResult(const std::string& key, const CompileResult& result);
std::optional<CompileResult> UnpackCompileResult(const std::string& key, std::string_view bytes);

// Every input that can change what `compiler` answers to `request`, as 64 hex digits.
std::string CompileKey(const KernelCompiler& compiler, const CompileRequest& request);

// Asks the cache before the compiler. Rejections are remembered, errors never. Both must outlive
// the result.
std::unique_ptr<KernelCompiler> MakeCachingCompiler(KernelCompiler& compiler, CompileCache& cache);

}  // namespace fettle
