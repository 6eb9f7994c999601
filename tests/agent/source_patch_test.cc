// SPDX-License-Identifier: Apache-2.0
#include "agent/source_patch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

constexpr char kSource[] = "a\nb\nc\nd\nb\nc\ne\n";

TEST(UnifiedDiff, AppliesByContextWhateverTheNumbersSay) {
  const auto patched =
      ApplyUnifiedDiff(kSource, "--- a/k.cu\n+++ b/k.cu\n@@ -900,2 +1,3 @@\n c\n-d\n+D\n+D2\n");
  ASSERT_TRUE(patched.ok()) << patched.status();
  EXPECT_EQ(*patched, "a\nb\nc\nD\nD2\nb\nc\ne\n");
}

TEST(UnifiedDiff, TheNumberDecidesBetweenEqualPlaces) {
  const auto second = ApplyUnifiedDiff(kSource, "@@ -5,2 +5,2 @@\n b\n-c\n+C\n");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*second, "a\nb\nc\nd\nb\nC\ne\n");
  const auto ambiguous = ApplyUnifiedDiff(kSource, "@@ @@\n b\n-c\n+C\n");
  EXPECT_TRUE(absl::IsInvalidArgument(ambiguous.status()));
  EXPECT_THAT(StatusText(ambiguous.status()), HasSubstr("2 places"));
}

TEST(UnifiedDiff, SaysWhatDoesNotMatch) {
  const auto missing = ApplyUnifiedDiff(kSource, "@@ -1,2 +1,2 @@\n a\n-x\n+y\n");
  EXPECT_TRUE(absl::IsInvalidArgument(missing.status()));
  EXPECT_THAT(StatusText(missing.status()), HasSubstr("`x`"));
  EXPECT_FALSE(ApplyUnifiedDiff(kSource, "just prose").ok());
  EXPECT_FALSE(ApplyUnifiedDiff(kSource, "").ok());
  EXPECT_FALSE(ApplyUnifiedDiff("", "@@ -1 +1 @@\n-a\n+b\n").ok());
}

TEST(UnifiedDiff, TakesSeveralHunksAndEmptyContextLines) {
  const auto patched =
      ApplyUnifiedDiff("a\n\nb\nc\n", "@@ -1,3 +1,3 @@\n-a\n+A\n\n b\n@@ -4 +4 @@\n-c\n+C\n");
  ASSERT_TRUE(patched.ok()) << patched.status();
  EXPECT_EQ(*patched, "A\n\nb\nC\n");
}

TEST(Edits, ReplaceWhatOccursOnce) {
  const auto edited = ApplyEdits("int x = 1;\n", {{"1", "2"}, {"int", "long"}});
  ASSERT_TRUE(edited.ok());
  EXPECT_EQ(*edited, "long x = 2;\n");
  EXPECT_THAT(StatusText(ApplyEdits("aa", {{"a", "b"}}).status()), HasSubstr("more than once"));
  EXPECT_THAT(StatusText(ApplyEdits("aa", {{"c", "b"}}).status()), HasSubstr("`c`"));
  EXPECT_FALSE(ApplyEdits("aa", {{"", "b"}}).ok());
}

TEST(Normalize, ForgetsLayoutAndCommentsOnly) {
  EXPECT_EQ(NormalizeSource("int  x ; // one\n/* two */ x=1;"), NormalizeSource("int x;x = 1 ;"));
  EXPECT_NE(NormalizeSource("int x;"), NormalizeSource("intx;"));
  EXPECT_NE(NormalizeSource("f(\"a b\")"), NormalizeSource("f(\"a  b\")"));
  EXPECT_NE(NormalizeSource("x = 1;"), NormalizeSource("x = 2;"));
  EXPECT_EQ(NormalizeSource("a /* unfinished"), "a");
  EXPECT_EQ(NormalizeSource("// only"), "");
}

}  // namespace
}  // namespace fettle
