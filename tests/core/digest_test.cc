// SPDX-License-Identifier: Apache-2.0
#include "core/digest.h"

namespace fettle {
namespace {

using nlohmann::json;

TEST(Sha256Hex, MatchesTheStandardExamples) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(CanonicalJson, SortsKeysByUtf16) {
  // U+1F600 (surrogates d83d de00) sorts before U+FB33, unlike in UTF-8 order.
  const json value = {{"\xEF\xAC\xB3", 1}, {"\xF0\x9F\x98\x80", 2}, {"b", 3}, {"a", json::array()}};
  EXPECT_EQ(CanonicalJson(value), "{\"a\":[],\"b\":3,\"\xF0\x9F\x98\x80\":2,\"\xEF\xAC\xB3\":1}");
}

// RFC 8785 appendix B, and the edges of the plain form.
TEST(CanonicalJson, WritesNumbersAsEcmaScriptDoes) {
  const std::pair<double, std::string> examples[] = {
      {0.0, "0"},
      {-0.0, "0"},
      {5e-324, "5e-324"},
      {-5e-324, "-5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {9007199254740992.0, "9007199254740992"},
      {-9007199254740992.0, "-9007199254740992"},
      {295147905179352830000.0, "295147905179352830000"},
      {9.999999999999997e22, "9.999999999999997e+22"},
      {1e23, "1e+23"},
      {999999999999999700000.0, "999999999999999700000"},
      {1e21, "1e+21"},
      {1e20, "100000000000000000000"},
      {9.999999999999997e-7, "9.999999999999997e-7"},
      {1e-6, "0.000001"},
      {1e-7, "1e-7"},
      {333333333.33333325, "333333333.33333325"},
      {4.5, "4.5"},
      {0.002, "0.002"},
      {1.0, "1"},
      {123.456, "123.456"},
      {1e-27, "1e-27"}};
  for (const auto& [value, text] : examples) EXPECT_EQ(CanonicalJson(json(value)), text);
}

TEST(CanonicalJson, EscapesOnlyWhatItMust) {
  EXPECT_EQ(CanonicalJson(json("\x01\b\t\n\f\r\"\\/\x7f\xC3\xA9")),
            "\"\\u0001\\b\\t\\n\\f\\r\\\"\\\\/\x7f\xC3\xA9\"");
}

TEST(CanonicalJson, KeepsLargeIntegersApart) {
  EXPECT_EQ(CanonicalJson(json(std::numeric_limits<std::int64_t>::max())), "9223372036854775807");
  EXPECT_EQ(CanonicalJson(json(std::numeric_limits<std::uint64_t>::max())), "18446744073709551615");
}

TEST(CanonicalJson, SurvivesMalformedUtf8Keys) {
  EXPECT_FALSE(CanonicalJson(json{{"\xF0\x9F", 1}, {"\xC3", 2}, {"\x80", 3}}).empty());
}

}  // namespace
}  // namespace fettle
