// What a HIP-dialect source sees before its first line on AMD.
#pragma once
#include "fettle_bf16.h"
