// SPDX-License-Identifier: Apache-2.0
#include "core/base64.h"

namespace fettle {
namespace {

TEST(Base64, MatchesTheRfcExamples) {
  const std::pair<std::string, std::string> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : examples) {
    EXPECT_EQ(Base64Encode(plain), coded);
    EXPECT_EQ(Base64Decode(coded).value(), plain);
  }
}

TEST(Base64, KeepsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(Base64Decode(Base64Encode(bytes)).value(), bytes);
}

TEST(Base64, RefusesMalformedText) {
  for (const std::string bad : {"Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9*", "=m9v", "Zm\n9"}) {
    EXPECT_EQ(Base64Decode(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace fettle
