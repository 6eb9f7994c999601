// SPDX-License-Identifier: Apache-2.0
#include "store/blob_files.h"

#include <fstream>

#include <gtest/gtest.h>

#include "core/digest.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

class BlobFilesTest : public ::testing::Test {
 protected:
  std::unique_ptr<BlobFiles> Open(BlobFilesOptions options = {}) {
    options.root = folder_.path() / "blobs";
    return *BlobFiles::Open(std::move(options));
  }
  // The only file below the root.
  std::filesystem::path OnlyFile() {
    std::filesystem::path found;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(folder_.path() / "blobs")) {
      if (entry.is_regular_file()) found = entry.path();
    }
    return found;
  }

  TemporaryFolder folder_;
};

TEST_F(BlobFilesTest, ReturnsWhatWasPut) {
  const auto blobs = Open();
  for (const std::string& bytes :
       {std::string(), std::string("a"), std::string(100'000, 'x'), std::string("\0\1\2", 3)}) {
    const absl::StatusOr<std::string> digest = blobs->Put(bytes);
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(*digest, Sha256Hex(bytes));
    EXPECT_TRUE(blobs->Has(*digest));
    EXPECT_EQ(*blobs->Get(*digest), bytes);
  }
}

TEST_F(BlobFilesTest, CompressesWhatShrinks) {
  const auto blobs = Open();
  ASSERT_TRUE(blobs->Put(std::string(100'000, 'x')).ok());
  EXPECT_EQ(OnlyFile().extension(), ".zst");
  EXPECT_LT(std::filesystem::file_size(OnlyFile()), 1'000U);
}

TEST_F(BlobFilesTest, PuttingTwiceKeepsOneFile) {
  const auto blobs = Open();
  ASSERT_TRUE(blobs->Put("same").ok());
  const auto first = std::filesystem::last_write_time(OnlyFile());
  ASSERT_TRUE(blobs->Put("same").ok());
  EXPECT_EQ(std::filesystem::last_write_time(OnlyFile()), first);
}

TEST_F(BlobFilesTest, NoticesDamage) {
  const auto blobs = Open();
  const std::string digest = *blobs->Put("precious");
  std::ofstream(OnlyFile(), std::ios::trunc) << "previous";
  EXPECT_EQ(blobs->Get(digest).status().code(), absl::StatusCode::kDataLoss);
  const std::string packed = *blobs->Put(std::string(10'000, 'y'));
  std::ofstream(folder_.path() / "blobs" / packed.substr(0, 2) / (packed + ".zst"), std::ios::trunc)
      << "not zstd";
  EXPECT_EQ(blobs->Get(packed).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(BlobFilesTest, RefusesWhatIsNoDigest) {
  const auto blobs = Open();
  EXPECT_EQ(blobs->Get("../../etc/passwd").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(blobs->Get(std::string(64, 'A')).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(blobs->Get(std::string(64, 'a')).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(BlobFilesTest, LimitsSizeAndKeepsAReserve) {
  const auto small = Open({.max_blob_bytes = 10});
  EXPECT_EQ(small->Put("elf bytes..").status().code(), absl::StatusCode::kInvalidArgument);
  const auto full = Open({.reserve_bytes = ~0ULL >> 1});
  const absl::Status status = full->Put("anything").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace fettle
