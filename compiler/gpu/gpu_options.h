// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/kernel_compiler.h"

namespace fettle {

// A request's options in a compiler's own words.
struct GpuOptions {
  std::vector<std::string> arguments;
  bool ptx = false;      // NVRTC: --ptx, PTX text instead of a cubin.
  std::string rejected;  // The first option that is not on the list; empty: all are.
};

// Both take, besides their own: -DNAME[=VALUE], -std=c++14|17|20, --use_fast_math or -ffast-math.
//   NVRTC: --fmad= --ftz= --prec-div= --prec-sqrt= (true or false), --maxrregcount=N,
//          --extra-device-vectorization, --generate-line-info, --ptx
//   AMD:   -O0 ... -O3, -munsafe-fp-atomics, -ffp-contract=off|on|fast, -fno-unroll-loops,
//          -fgpu-flush-denormals-to-zero, --gpu-max-threads-per-block=N
GpuOptions ReadNvrtcOptions(const std::vector<std::string>& options);
GpuOptions ReadAmdOptions(const std::vector<std::string>& options);

// The list above as one line, for error messages.
std::string AllowedNvrtcOptions();
std::string AllowedAmdOptions();

}  // namespace fettle
