// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/target.h"

namespace fettle {

// The policy's lists.
bool IsAllowedInclude(std::string_view name);  // "cuda_fp16.h", "hip/hip_runtime.h", "cmath".
bool IsAllowedPragma(std::string_view first,
                     std::string_view second);  // "unroll", ""; "GCC", "ivdep".
bool IsAllowedOption(std::string_view option, Vendor vendor);
bool IsStandardDirective(std::string_view name);
// Attributes that run code at load time, replace symbols or change compiler flags.
bool IsBannedAttribute(std::string_view name);
// Functions of the host's C library that no kernel calls.
bool IsHostFunction(std::string_view name);
bool IsBannedBuiltin(std::string_view name);

}  // namespace fettle
