// SPDX-License-Identifier: Apache-2.0
// Several transactions reach the disk together, and nobody hears of one before.

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/status_macros.h"
#include "store/job_store.h"
#include "store/store.h"
#include "tests/fakes/store_rows.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

// A disk whose syncs wait until they are let go.
class HeldDisk {
 public:
  absl::Status Sync() {
    std::unique_lock lock(mutex_);
    ++syncs_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    return failure_;
  }
  void AwaitSync() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return syncs_ > 0; });
  }
  void Release(absl::Status failure = absl::OkStatus()) {
    const std::lock_guard lock(mutex_);
    held_ = false;
    failure_ = std::move(failure);
    changed_.notify_all();
  }
  int syncs() const {
    const std::lock_guard lock(mutex_);
    return syncs_;
  }
  bool held() const {
    const std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int syncs_ = 0;         // Guarded by mutex_.
  bool held_ = true;      // Guarded by mutex_.
  absl::Status failure_;  // Guarded by mutex_.
};

class LogSyncTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StoreOptions options;
    options.data_dir = folder_.path() / "data";
    options.before_sync = [this] { return disk_.Sync(); };
    options.before_commit = [this](std::int64_t number) {
      commits_ = number;
      commits_.notify_all();
      return absl::OkStatus();
    };
    auto store = Store::Open(std::move(options));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void TearDown() override { disk_.Release(); }

  absl::Status AddMark(int number, bool ahead) {
    const auto body = [number](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(Statement insert,
                              db.Prepare("INSERT INTO meta (key, value) VALUES (?, '')"));
      return insert.Bind(1, "mark " + std::to_string(number)).Run();
    };
    return ahead ? store_->WriteAhead(body) : store_->Write(body);
  }
  static absl::Status CountMarks(Connection& db, int* count) {
    FETTLE_ASSIGN_OR_RETURN(Statement select,
                            db.Prepare("SELECT count(*) FROM meta WHERE key LIKE 'mark %'"));
    FETTLE_RETURN_IF_ERROR(select.Step().status());
    *count = static_cast<int>(select.Int64(0));
    return absl::OkStatus();
  }
  void AwaitCommits(std::int64_t count) {
    for (std::int64_t seen = commits_; seen < count; seen = commits_) commits_.wait(seen);
  }

  TemporaryFolder folder_;
  HeldDisk disk_;
  std::atomic<std::int64_t> commits_{0};
  std::unique_ptr<Store> store_;
};

TEST_F(LogSyncTest, OneSyncServesAllThatWait) {
  constexpr int kWriters = 8;
  std::vector<std::thread> writers;
  writers.emplace_back([this] { EXPECT_TRUE(AddMark(0, /*ahead=*/false).ok()); });
  disk_.AwaitSync();
  for (int i = 1; i <= kWriters; ++i) {
    writers.emplace_back([this, i] { EXPECT_TRUE(AddMark(i, /*ahead=*/false).ok()); });
  }
  AwaitCommits(kWriters + 1);
  disk_.Release();
  for (std::thread& writer : writers) writer.join();
  // The last commit may come too late for the second sync.
  EXPECT_GE(disk_.syncs(), 2);
  EXPECT_LE(disk_.syncs(), 3);
}

TEST_F(LogSyncTest, NobodyHearsOfItBeforeItIsOnTheDisk) {
  ASSERT_TRUE(AddMark(0, /*ahead=*/true).ok());
  std::vector<int> called;
  store_->WhenDurable([&] { called.push_back(disk_.held() ? -1 : 1); });
  ASSERT_TRUE(AddMark(1, /*ahead=*/true).ok());
  store_->WhenDurable([&] { called.push_back(disk_.held() ? -1 : 2); });
  int count = 0;
  ASSERT_TRUE(store_->ReadAhead([&](Connection& db) { return CountMarks(db, &count); }).ok());
  EXPECT_EQ(count, 2);
  std::thread reader([this] {
    int seen = 0;
    EXPECT_TRUE(store_->Read([&](Connection& db) { return CountMarks(db, &seen); }).ok());
    EXPECT_EQ(seen, 2);
    EXPECT_FALSE(disk_.held());
  });
  disk_.AwaitSync();
  disk_.Release();
  reader.join();
  store_->Flush();
  EXPECT_EQ(called, (std::vector<int>{1, 2}));
  store_->WhenDurable([&] { called.push_back(3); });  // Nothing to wait for: at once.
  EXPECT_EQ(called.back(), 3);
}

TEST_F(LogSyncTest, TakesNothingMoreOnceTheDiskHasFailed) {
  ASSERT_TRUE(AddMark(0, /*ahead=*/true).ok());
  bool called = false;
  store_->WhenDurable([&] { called = true; });
  disk_.AwaitSync();
  disk_.Release(absl::ResourceExhaustedError("no space left"));
  store_->Flush();
  EXPECT_FALSE(called);
  const absl::Status later = AddMark(1, /*ahead=*/false);
  EXPECT_EQ(later.code(), absl::StatusCode::kInternal) << later;
  EXPECT_NE(later.message().find("no space left"), std::string::npos) << later;
  int count = 0;
  EXPECT_TRUE(store_->Read([&](Connection& db) { return CountMarks(db, &count); }).ok());
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace fettle
