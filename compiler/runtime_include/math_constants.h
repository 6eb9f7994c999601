// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fettle_cpu.h>

#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_MAX_NORMAL_F FLT_MAX
#define CUDART_MIN_DENORM_F __FLT_DENORM_MIN__
#define CUDART_PI_F 3.14159265358979323846f
#define CUDART_PI 3.14159265358979323846
#define CUDART_SQRT_TWO_F 1.41421356237309504880f
#define CUDART_SQRT_HALF_F 0.70710678118654752440f
#define CUDART_L2E_F 1.44269504088896340736f
#define CUDART_LN2_F 0.69314718055994530942f
