// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything that a CUDA- or HIP-dialect kernel finds predefined, for the host C++ compiler. The
// compiler precompiles this header and puts it before every kernel. Set on the command line:
//   FETTLE_CPU_CHECK   1: instrumented build for the checking runtime, else 0
//   FETTLE_CPU_LANES   width of a warp, 32 or 64
// Names that begin with fettle_ or FETTLE_ are ours; all others are those of the two dialects.

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include <fettle_cpu_abi.h>

#include <fettle_cpu/builtins.h>
#include <fettle_cpu/vector_types.h>
#include <fettle_cpu/math.h>
#include <fettle_cpu/half.h>
#include <fettle_cpu/warp.h>
#include <fettle_cpu/atomics.h>
#include <fettle_cpu/groups.h>
#include <fettle_cpu/export.h>
