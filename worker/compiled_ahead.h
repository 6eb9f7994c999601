// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "compiler/compile_cache.h"
#include "core/blob.h"

namespace fettle {

// Carries results of compiles from one worker to another, as blobs of the server. A key names every
// input of a compile and the compiler's identity, so that only the same toolchain's results serve.
// Thread-safe. Trouble costs a compile, never a unit.
class CompiledAhead {
 public:
  // `known`: what others compiled, by key. `cache`: where it goes; null: nowhere. All outlive this.
  CompiledAhead(const std::map<std::string, std::string>& known, CompileCache* cache,
                BlobStore& blobs)
      : known_(known), cache_(cache), blobs_(blobs) {}

  // Puts the result of another worker into the cache, unless it is there.
  void Fetch(const std::string& key);
  // Stores a result for others.
  void Keep(const std::string& key, const CompileResult& result);
  // What Keep stored.
  std::map<std::string, std::string> kept() const;

 private:
  const std::map<std::string, std::string>& known_;
  CompileCache* cache_;
  BlobStore& blobs_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> kept_;  // Guarded by mutex_.
};

}  // namespace fettle
