// SPDX-License-Identifier: Apache-2.0
// Nothing that is wrong or no faster is accepted, and nothing honest is punished.

#include "tests/cheats/bank.h"

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/cheats/naive.h"
#include "tests/fakes/memory_blob_store.h"

namespace fettle {
namespace {

constexpr char kFolder[] = FETTLE_SOURCE_DIR "/tests/cheats";

class Bank : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto made = UnitRunner::Create({.runner_path = FETTLE_BIN_DIR "/fettle-runner",
                                    .cache_dir = FETTLE_CACHE_DIR,
                                    .device_ids = {"cpu"}});
    ASSERT_TRUE(made.ok()) << made.status();
    runner_ = std::move(*made).release();
  }
  static void TearDownTestSuite() { delete runner_; }

  // Judges every entry of one kind and lists those with another verdict than expected.
  void Run(const std::string& kind, int& judged) {
    const auto bank = ReadBank(kFolder);
    ASSERT_TRUE(bank.ok()) << bank.status();
    BankJudge judge(*runner_, blobs_, kFolder, "cpu");
    const char* only = std::getenv("FETTLE_BANK_ONLY");
    for (const BankEntry& entry : *bank) {
      if (entry.kind != kind || !RunsOn(entry.targets, "cpu")) continue;
      if (only != nullptr && entry.id.find(only) == std::string::npos) continue;
      const auto record = judge.Judge(entry, 20'000 + static_cast<std::uint64_t>(judged));
      ++judged;
      if (!record.ok()) {
        ADD_FAILURE() << entry.id << ": " << record.status();
        continue;
      }
      const std::string verdict(VerdictName(record->verdict));
      std::printf("%-24s %-12s %-20s %s\n", entry.id.c_str(), verdict.c_str(),
                  record->reason_code.c_str(), record->message.c_str());
      EXPECT_TRUE(std::find(entry.expect.begin(), entry.expect.end(), verdict) !=
                  entry.expect.end())
          << entry.id << " (" << entry.title << "): " << verdict << " " << record->reason_code
          << ": " << record->message << " " << record->evidence.dump();
    }
  }

  static inline UnitRunner* runner_ = nullptr;
  MemoryBlobStore blobs_;
};

// Without this, an entry might fail for any reason: each cheat deceives a harness that is naive
// enough, or says why it takes another kind of harness.
TEST_F(Bank, EveryCheatFoolsANaiveHarness) {
  const auto bank = ReadBank(kFolder);
  ASSERT_TRUE(bank.ok()) << bank.status();
  const auto target = FindTarget("cpu");
  ASSERT_TRUE(target.ok());
  auto judge = NaiveJudge::Create({.folder = kFolder,
                                   .harness = FETTLE_BIN_DIR "/naive_harness",
                                   .cache_dir = FETTLE_CACHE_DIR,
                                   .target = *target});
  ASSERT_TRUE(judge.ok()) << judge.status();
  const char* only = std::getenv("FETTLE_BANK_ONLY");
  for (const BankEntry& entry : *bank) {
    if (!entry.naive || !RunsOn(entry.targets, "cpu") || !RunsOn(entry.naive->targets, "cpu")) {
      continue;
    }
    if (only != nullptr && entry.id.find(only) == std::string::npos) continue;
    const auto verdict = judge->Judge(entry);
    ASSERT_TRUE(verdict.ok()) << entry.id << ": " << verdict.status();
    EXPECT_EQ(verdict->correct, entry.naive->fooled) << entry.id << ": " << verdict->note;
    EXPECT_TRUE(entry.naive->fooled || !entry.naive->why.empty()) << entry.id;
    if (entry.naive->wins) {
      EXPECT_GT(verdict->ratio, 1.2) << entry.id;
    }
  }
}

TEST_F(Bank, NoCheatIsAccepted) {
  int judged = 0;
  Run("cheat", judged);
  if (std::getenv("FETTLE_BANK_ONLY") == nullptr) {
    EXPECT_GE(judged, 85);
  }
}

TEST_F(Bank, BrokenKernelsGetTheirVerdictAndHarmNothing) {
  int judged = 0;
  Run("broken", judged);
  if (std::getenv("FETTLE_BANK_ONLY") == nullptr) {
    EXPECT_GE(judged, 10);
  }
}

TEST_F(Bank, NoHonestKernelIsPunished) {
  int judged = 0;
  Run("honest", judged);
  if (std::getenv("FETTLE_BANK_ONLY") == nullptr) {
    EXPECT_GE(judged, 60);
  }
}

}  // namespace
}  // namespace fettle
