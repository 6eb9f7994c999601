// SPDX-License-Identifier: Apache-2.0
#include "compiler/disassembler.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fettle {
namespace {

using ::testing::HasSubstr;

std::string Object(const std::string& name) {
  std::ifstream in(std::string(FETTLE_SOURCE_DIR) + "/tests/data/code_objects/" + name,
                   std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The note on the line with `part`; "?" where there is no such line.
std::string NoteOf(const std::string& text, const std::string& part) {
  const std::size_t at = text.find(part);
  if (at == std::string::npos) return "?";
  const std::string line = text.substr(at, text.find('\n', at) - at);
  const std::size_t note = line.find("<- ");
  return note == std::string::npos ? "" : line.substr(note + 3);
}

// Lines as nvdisasm prints them.
constexpr char kSass[] = R"(.text.k:
.L_x_1:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0020*/              @!P0 STG.E.U16 desc[UR4][R2.64], R5 ;
        /*0030*/                   LDS.64 R6, [R7] ;
        /*0040*/                   STL [R1+0x10], R8 ;
        /*0050*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24 ;
        /*0060*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0070*/                   MUFU.EX2 R9, R10 ;
        /*0080*/              @P1  BRA `(.L_x_1) ;
        /*0090*/                   BRA `(.L_x_9) ;
        /*00a0*/                   EXIT ;
.L_x_12:
        /*00b0*/                   BRA `(.L_x_12);
)";

TEST(Annotate, SaysWhatSassMoves) {
  const std::string text = Annotate(kSass, Vendor::kNvidia);
  EXPECT_EQ(NoteOf(text, "LDG.E.128"), "global load, 16 B a thread");
  EXPECT_EQ(NoteOf(text, "STG.E.U16"), "global store, 2 B a thread");
  EXPECT_EQ(NoteOf(text, "LDS.64"), "shared load, 8 B a thread");
  EXPECT_THAT(NoteOf(text, "STL"), HasSubstr("spill"));
  EXPECT_EQ(NoteOf(text, "HGMMA"), "matrix");
  EXPECT_EQ(NoteOf(text, "BAR.SYNC"), "barrier");
  EXPECT_EQ(NoteOf(text, "MUFU"), "special function");
  EXPECT_EQ(NoteOf(text, "BRA `(.L_x_1)"), "back: a loop");
  EXPECT_EQ(NoteOf(text, "BRA `(.L_x_9)"), "");
  EXPECT_EQ(NoteOf(text, "BRA `(.L_x_12)"), "") << "padding behind the code";
  EXPECT_EQ(NoteOf(text, "EXIT"), "");
  EXPECT_EQ(NoteOf(text, "LDC"), "");
}

TEST(Annotate, SaysWhatAmdMoves) {
  const std::string text = Annotate(
      "\tglobal_load_dwordx4 v[2:5], v[0:1], off   // 000000001234: DC5C8000 02000000\n"
      "\tglobal_load_lds_dwordx4 v[0:1], off\n"
      "\tds_read_b64 v[2:3], v0\n"
      "\tds_bpermute_b32 v1, v2, v3\n"
      "\tscratch_store_dword off, v1, off\n"
      "\tbuffer_store_short v1, v0, s[0:3], 0 offen\n"
      "\tglobal_atomic_add_f32 v0, v1, s[0:1]\n"
      "\tv_mfma_f32_32x32x16_f16 v[0:15], v[2:5], v[6:9], v[0:15]\n"
      "\ts_barrier\n"
      "\ts_cbranch_scc1 65524\n"
      "\ts_cbranch_execz 5\n",
      Vendor::kAmd);
  EXPECT_EQ(NoteOf(text, "global_load_dwordx4"), "memory load, 16 B a lane");
  EXPECT_THAT(NoteOf(text, "global_load_lds"), HasSubstr("not through registers, 16 B"));
  EXPECT_EQ(NoteOf(text, "ds_read_b64"), "LDS load, 8 B a lane");
  EXPECT_EQ(NoteOf(text, "ds_bpermute"), "lane exchange");
  EXPECT_THAT(NoteOf(text, "scratch_store"), HasSubstr("spill"));
  EXPECT_EQ(NoteOf(text, "buffer_store_short"), "memory store, 2 B a lane");
  EXPECT_EQ(NoteOf(text, "global_atomic"), "atomic");
  EXPECT_EQ(NoteOf(text, "v_mfma"), "matrix");
  EXPECT_EQ(NoteOf(text, "s_barrier"), "barrier");
  EXPECT_EQ(NoteOf(text, "s_cbranch_scc1"), "back: a loop");
  EXPECT_EQ(NoteOf(text, "s_cbranch_execz"), "");
  EXPECT_EQ(text.find("DC5C8000"), std::string::npos) << "the note takes the encoding's place";
}

TEST(Disassemble, PrintsAmdIsa) {  // llvm-22 is in deploy/packages.txt.
  for (const char* arch : {"gfx90a", "gfx942", "gfx950"}) {
    const auto result =
        Disassemble(Object(std::string("facts_kernels.") + arch + ".co"), *FindTarget(arch), {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(result->text, HasSubstr("s_endpgm"));
    EXPECT_THAT(result->text, HasSubstr("<- "));
  }
}

TEST(Disassemble, PrintsSassWhereCudaHasATool) {
  const auto result = Disassemble(Object("facts_kernels.sm_90a.cubin"), *FindTarget("sm_90a"), {});
  if (absl::IsUnavailable(result.status())) GTEST_SKIP() << result.status();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->text, HasSubstr("EXIT"));
  EXPECT_THAT(result->text, HasSubstr("<- global"));
}

TEST(Disassemble, RefusesWhatIsNoObject) {
  EXPECT_TRUE(absl::IsInvalidArgument(Disassemble("nonsense", *FindTarget("gfx950"), {}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Disassemble("", *FindTarget("cpu"), {}).status()));
}

}  // namespace
}  // namespace fettle
