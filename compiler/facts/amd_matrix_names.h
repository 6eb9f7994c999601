// SPDX-License-Identifier: Apache-2.0
#pragma once

// The matrix instructions of the VOP3P encoding by opcode, under LLVM's names.

namespace fettle {

struct AmdMatrixName {
  int opcode;
  const char* gfx90a;
  const char* gfx942;
  const char* gfx950;
};

inline constexpr AmdMatrixName kAmdMatrixNames[] = {
    {45, nullptr, nullptr, "v_mfma_f32_16x16x128_f8f6f4"},
    {46, nullptr, nullptr, "v_mfma_f32_32x32x64_f8f6f4"},
    {53, nullptr, nullptr, "v_mfma_f32_16x16x32_bf16"},
    {54, nullptr, nullptr, "v_mfma_i32_16x16x64_i8"},
    {55, nullptr, nullptr, "v_mfma_f32_32x32x16_bf16"},
    {56, nullptr, nullptr, "v_mfma_i32_32x32x32_i8"},
    {57, nullptr, nullptr, "v_smfmac_f32_16x16x64_bf16"},
    {58, nullptr, nullptr, "v_smfmac_i32_16x16x128_i8"},
    {59, nullptr, nullptr, "v_smfmac_f32_16x16x128_bf8_bf8"},
    {60, nullptr, nullptr, "v_smfmac_f32_16x16x128_bf8_fp8"},
    {61, nullptr, nullptr, "v_smfmac_f32_16x16x128_fp8_bf8"},
    {62, nullptr, "v_mfma_f32_16x16x8_xf32", nullptr},
    {63, nullptr, "v_mfma_f32_32x32x4_xf32", nullptr},
    {64, "v_mfma_f32_32x32x1f32", "v_mfma_f32_32x32x1_2b_f32", "v_mfma_f32_32x32x1_2b_f32"},
    {65, "v_mfma_f32_16x16x1f32", "v_mfma_f32_16x16x1_4b_f32", "v_mfma_f32_16x16x1_4b_f32"},
    {66, "v_mfma_f32_4x4x1f32", "v_mfma_f32_4x4x1_16b_f32", "v_mfma_f32_4x4x1_16b_f32"},
    {67, nullptr, nullptr, "v_smfmac_f32_16x16x128_fp8_fp8"},
    {68, "v_mfma_f32_32x32x2f32", "v_mfma_f32_32x32x2_f32", "v_mfma_f32_32x32x2_f32"},
    {69, "v_mfma_f32_16x16x4f32", "v_mfma_f32_16x16x4_f32", "v_mfma_f32_16x16x4_f32"},
    {70, nullptr, nullptr, "v_smfmac_f32_32x32x32_bf16"},
    {71, nullptr, nullptr, "v_smfmac_i32_32x32x64_i8"},
    {72, "v_mfma_f32_32x32x4f16", "v_mfma_f32_32x32x4_2b_f16", "v_mfma_f32_32x32x4_2b_f16"},
    {73, "v_mfma_f32_16x16x4f16", "v_mfma_f32_16x16x4_4b_f16", "v_mfma_f32_16x16x4_4b_f16"},
    {74, "v_mfma_f32_4x4x4f16", "v_mfma_f32_4x4x4_16b_f16", "v_mfma_f32_4x4x4_16b_f16"},
    {75, nullptr, nullptr, "v_smfmac_f32_32x32x64_bf8_bf8"},
    {76, "v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16", "v_mfma_f32_32x32x8_f16"},
    {77, "v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x16_f16"},
    {78, nullptr, nullptr, "v_smfmac_f32_32x32x64_bf8_fp8"},
    {79, nullptr, nullptr, "v_smfmac_f32_32x32x64_fp8_bf8"},
    {80, "v_mfma_i32_32x32x4i8", "v_mfma_i32_32x32x4_2b_i8", "v_mfma_i32_32x32x4_2b_i8"},
    {81, "v_mfma_i32_16x16x4i8", "v_mfma_i32_16x16x4_4b_i8", "v_mfma_i32_16x16x4_4b_i8"},
    {82, "v_mfma_i32_4x4x4i8", "v_mfma_i32_4x4x4_16b_i8", "v_mfma_i32_4x4x4_16b_i8"},
    {83, nullptr, nullptr, "v_smfmac_f32_32x32x64_fp8_fp8"},
    {84, "v_mfma_i32_32x32x8i8", nullptr, "v_mfma_f32_16x16x32_f16"},
    {85, "v_mfma_i32_16x16x16i8", nullptr, "v_mfma_f32_32x32x16_f16"},
    {86, nullptr, "v_mfma_i32_32x32x16_i8", "v_mfma_i32_32x32x16_i8"},
    {87, nullptr, "v_mfma_i32_16x16x32_i8", "v_mfma_i32_16x16x32_i8"},
    {90, nullptr, nullptr, "v_smfmac_f32_16x16x64_f16"},
    {91, nullptr, nullptr, "v_smfmac_f32_32x32x32_f16"},
    {93, nullptr, "v_mfma_f32_32x32x4_2b_bf16", "v_mfma_f32_32x32x4_2b_bf16"},
    {94, nullptr, "v_mfma_f32_16x16x4_4b_bf16", "v_mfma_f32_16x16x4_4b_bf16"},
    {95, nullptr, "v_mfma_f32_4x4x4_16b_bf16", "v_mfma_f32_4x4x4_16b_bf16"},
    {96, nullptr, "v_mfma_f32_32x32x8_bf16", "v_mfma_f32_32x32x8_bf16"},
    {97, nullptr, "v_mfma_f32_16x16x16_bf16", "v_mfma_f32_16x16x16_bf16"},
    {98, nullptr, "v_smfmac_f32_16x16x32_f16", "v_smfmac_f32_16x16x32_f16"},
    {99, "v_mfma_f32_32x32x4bf16_1k", nullptr, nullptr},
    {100, "v_mfma_f32_16x16x4bf16_1k", "v_smfmac_f32_32x32x16_f16", "v_smfmac_f32_32x32x16_f16"},
    {101, "v_mfma_f32_4x4x4bf16_1k", nullptr, nullptr},
    {102, "v_mfma_f32_32x32x8bf16_1k", "v_smfmac_f32_16x16x32_bf16", "v_smfmac_f32_16x16x32_bf16"},
    {103, "v_mfma_f32_16x16x16bf16_1k", nullptr, nullptr},
    {104, "v_mfma_f32_32x32x2bf16", "v_smfmac_f32_32x32x16_bf16", "v_smfmac_f32_32x32x16_bf16"},
    {105, "v_mfma_f32_16x16x2bf16", nullptr, nullptr},
    {106, nullptr, "v_smfmac_i32_16x16x64_i8", "v_smfmac_i32_16x16x64_i8"},
    {107, "v_mfma_f32_4x4x2bf16", nullptr, nullptr},
    {108, "v_mfma_f32_32x32x4bf16", "v_smfmac_i32_32x32x32_i8", "v_smfmac_i32_32x32x32_i8"},
    {109, "v_mfma_f32_16x16x8bf16", nullptr, nullptr},
    {110, "v_mfma_f64_16x16x4f64", "v_mfma_f64_16x16x4_f64", "v_mfma_f64_16x16x4_f64"},
    {111, "v_mfma_f64_4x4x4f64", "v_mfma_f64_4x4x4_4b_f64", "v_mfma_f64_4x4x4_4b_f64"},
    {112, nullptr, "v_mfma_f32_16x16x32_bf8_bf8", "v_mfma_f32_16x16x32_bf8_bf8"},
    {113, nullptr, "v_mfma_f32_16x16x32_bf8_fp8", "v_mfma_f32_16x16x32_bf8_fp8"},
    {114, nullptr, "v_mfma_f32_16x16x32_fp8_bf8", "v_mfma_f32_16x16x32_fp8_bf8"},
    {115, nullptr, "v_mfma_f32_16x16x32_fp8_fp8", "v_mfma_f32_16x16x32_fp8_fp8"},
    {116, nullptr, "v_mfma_f32_32x32x16_bf8_bf8", "v_mfma_f32_32x32x16_bf8_bf8"},
    {117, nullptr, "v_mfma_f32_32x32x16_bf8_fp8", "v_mfma_f32_32x32x16_bf8_fp8"},
    {118, nullptr, "v_mfma_f32_32x32x16_fp8_bf8", "v_mfma_f32_32x32x16_fp8_bf8"},
    {119, nullptr, "v_mfma_f32_32x32x16_fp8_fp8", "v_mfma_f32_32x32x16_fp8_fp8"},
    {120, nullptr, "v_smfmac_f32_16x16x64_bf8_bf8", "v_smfmac_f32_16x16x64_bf8_bf8"},
    {121, nullptr, "v_smfmac_f32_16x16x64_bf8_fp8", "v_smfmac_f32_16x16x64_bf8_fp8"},
    {122, nullptr, "v_smfmac_f32_16x16x64_fp8_bf8", "v_smfmac_f32_16x16x64_fp8_bf8"},
    {123, nullptr, "v_smfmac_f32_16x16x64_fp8_fp8", "v_smfmac_f32_16x16x64_fp8_fp8"},
    {124, nullptr, "v_smfmac_f32_32x32x32_bf8_bf8", "v_smfmac_f32_32x32x32_bf8_bf8"},
    {125, nullptr, "v_smfmac_f32_32x32x32_bf8_fp8", "v_smfmac_f32_32x32x32_bf8_fp8"},
    {126, nullptr, "v_smfmac_f32_32x32x32_fp8_bf8", "v_smfmac_f32_32x32x32_fp8_bf8"},
    {127, nullptr, "v_smfmac_f32_32x32x32_fp8_fp8", "v_smfmac_f32_32x32x32_fp8_fp8"},
};

}  // namespace fettle
