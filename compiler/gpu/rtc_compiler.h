// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/kernel_compiler.h"

namespace fettle {

struct RtcOptions {
  bool nvrtc = true;                       // Else hiprtc.
  std::vector<std::string> library_files;  // Tried in this order; empty: the vendor's own names.
  // Put before the compile server's command line: a loader of a newer glibc, say
  // {"P/usr/lib64/ld-linux-x86-64.so.2", "--library-path", "P/usr/lib/x86_64-linux-gnu"}.
  std::vector<std::string> argv_prefix;
  std::vector<std::string> readable;      // Folders the sandboxed server must also see.
  std::string program;                    // fettle-compiled; empty: beside this program.
  std::vector<std::string> include_dirs;  // NVRTC; empty: the one of the library's own CUDA.
  std::int64_t wall_seconds = 60, cpu_seconds = 60;
  std::int64_t address_space_bytes = std::int64_t{8} << 30;
  std::int64_t file_bytes = std::int64_t{256} << 20;
  bool isolate = true;     // In bubblewrap, where it works.
  bool precompile = true;  // NVRTC from 12.8 on: headers that take long, once for all compiles.
};

// Compiles with NVRTC ("nvrtc", sm_*) or hiprtc ("hiprtc", gfx*), one child process per compile.
// A compiler that aborts, exits, hangs or eats its memory rejects the one request.
// kUnavailable: no library, or fettle-compiled does not start.
absl::StatusOr<std::unique_ptr<KernelCompiler>> MakeRtcCompiler(RtcOptions options);

}  // namespace fettle
