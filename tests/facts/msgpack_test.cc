// SPDX-License-Identifier: Apache-2.0
#include "core/code_object/msgpack.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fettle {
namespace {

using ::testing::HasSubstr;

std::string Bytes(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

std::string Why(std::string_view bytes) {
  return std::string(ParseMsgpack(AsBytes(bytes)).status().message());
}

// {"name": "k", "sizes": [1, -2, 300, -70000], "on": true, "deep": {"x": nil}}
std::string Sample() {
  return Bytes({0x84, 0xa4}) + "name" + Bytes({0xa1}) + "k" + Bytes({0xa5}) + "sizes" +
         Bytes({0x94, 1, 0xfe, 0xcd, 1, 0x2c, 0xd2, 0xff, 0xfe, 0xee, 0x90, 0xa2}) + "on" +
         Bytes({0xc3, 0xd9, 4}) + "deep" + Bytes({0xde, 0, 1, 0xa1}) + "x" + Bytes({0xc0});
}

TEST(Msgpack, ReadsWhatMetadataUses) {
  const auto value = ParseMsgpack(AsBytes(Sample()));
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->Text("name"), "k");
  EXPECT_EQ(value->Number("on", 0), 1);
  const MsgpackValue* sizes = value->Find("sizes");
  ASSERT_NE(sizes, nullptr);
  ASSERT_EQ(sizes->items.size(), 4U);
  EXPECT_EQ(sizes->items[1].number, -2);
  EXPECT_EQ(sizes->items[2].number, 300);
  EXPECT_EQ(sizes->items[3].number, -70000);
  ASSERT_NE(value->Find("deep"), nullptr);
  EXPECT_NE(value->Find("deep")->Find("x"), nullptr);
}

TEST(Msgpack, EveryCutIsFound) {
  const std::string whole = Sample();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ParseMsgpack(AsBytes(std::string_view(whole).substr(0, size))).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size;
  }
}

TEST(Msgpack, HostileSizesCostNothing) {
  EXPECT_THAT(Why(Bytes({0xdd, 0xff, 0xff, 0xff, 0xff})), HasSubstr("cut off"));
  EXPECT_THAT(Why(Bytes({0xdf, 0xff, 0xff, 0xff, 0xff})), HasSubstr("cut off"));
  EXPECT_THAT(Why(Bytes({0xdb, 0xff, 0xff, 0xff, 0xff})), HasSubstr("cut off"));
  EXPECT_THAT(Why(std::string(100'000, '\x91')), HasSubstr("nested too deeply"));
  EXPECT_THAT(Why(Bytes({0xc1})), HasSubstr("unknown tag 0xc1"));
  // Three million nils: a hundred times as much memory as bytes.
  EXPECT_THAT(Why(Bytes({0xdd, 0, 0x2d, 0xc6, 0xc0}) + std::string(3'000'000, '\xc0')),
              HasSubstr("more than a million values"));
}

// Any bytes end in an answer.
TEST(Msgpack, ReadsRandomBytes) {
  std::mt19937 random(11);
  int good = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::string bytes = Sample();
    if (round % 2 == 0) {
      for (int i = 0; i < 4; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    } else {
      bytes.resize(random() % 64);
      for (char& byte : bytes) byte = static_cast<char>(random());
    }
    good += ParseMsgpack(AsBytes(bytes)).ok() ? 1 : 0;
  }
  EXPECT_GT(good, 0);
}

}  // namespace
}  // namespace fettle
