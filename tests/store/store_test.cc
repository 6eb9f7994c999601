// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "store/schema.h"
#include "store/variant_store.h"
#include "tests/fakes/store_rows.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> Open() {
    StoreOptions options;
    options.data_dir = folder_.path() / "data";
    return Store::Open(std::move(options));
  }
  std::unique_ptr<Store> OpenOrDie() {
    auto store = Open();
    if (!store.ok()) ADD_FAILURE() << store.status();
    return *std::move(store);
  }

  TemporaryFolder folder_;
};

TEST_F(StoreTest, KeepsWhatWasWritten) {
  std::string id;
  {
    const auto store = OpenOrDie();
    id = store->data_dir_id();
    ASSERT_TRUE(InsertFakeJob(*store, "j1").ok());
  }
  const auto store = OpenOrDie();
  EXPECT_EQ(store->data_dir_id(), id);
  EXPECT_EQ(store->schema_version(), static_cast<std::int64_t>(SchemaSteps().size()));
  const absl::Status read = store->Read([](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const std::optional<JobRow> job, FindJob(db, "j1"));
    EXPECT_TRUE(job.has_value());
    EXPECT_EQ(job->task_name, "scale");
    EXPECT_EQ(job->seed, 0xfedcba9876543210ULL);
    EXPECT_EQ(job->budget.candidates, 10);
    EXPECT_EQ(job->state, job_state::kQueued);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
}

TEST_F(StoreTest, UpdatesEveryFieldOfAJob) {
  const auto store = OpenOrDie();
  ASSERT_TRUE(InsertFakeJob(*store, "j1").ok());
  JobRow job = FakeJob("j1");
  job.target = "sm_90a";
  job.device_model = "model";
  job.toolchain = "chain";
  job.state = job_state::kRunning;
  job.stage = job_stage::kTune;
  job.message = "message";
  job.budget = {1, 2, 3, 4, 5.5};
  job.spent = {6, 7, 8, 9, 10.5};
  job.candidate_count = 11;
  job.judged_count = 12;
  job.since_improvement = 13;
  job.confirmations = 14;
  job.incumbent_ordinal = 15;
  job.incumbent_ratio = 1.5;
  job.tuned_variant = "v1";
  job.tuned_ratio = 1.25;
  job.best_variant = "v2";
  job.best_ratio_declared = 1.75;
  job.best_ratio_tuned = 1.125;
  job.space_size = "99";
  job.last_sequence = 16;
  job.started_ns = 17;
  job.finished_ns = 18;
  ASSERT_TRUE(store->Write([&](Connection& db) { return UpdateJob(db, job); }).ok());
  ASSERT_TRUE(
      store->Write([&](Connection& db) { return SetCancelRequested(db, "j1", true); }).ok());
  const absl::Status read = store->Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const std::optional<JobRow> got, FindJob(db, "j1"));
    EXPECT_EQ(got->target, "sm_90a");
    EXPECT_EQ(got->device_model, "model");
    EXPECT_EQ(got->toolchain, "chain");
    EXPECT_EQ(got->state, job_state::kRunning);
    EXPECT_EQ(got->stage, job_stage::kTune);
    EXPECT_EQ(got->message, "message");
    EXPECT_EQ(got->budget.usd, 5.5);
    EXPECT_EQ(got->spent.candidates, 6);
    EXPECT_EQ(got->spent.tokens, 9);
    EXPECT_EQ(got->confirmations, 14);
    EXPECT_EQ(got->incumbent_ordinal, 15);
    EXPECT_EQ(got->incumbent_ratio, 1.5);
    EXPECT_EQ(got->tuned_variant, "v1");
    EXPECT_EQ(got->tuned_ratio, 1.25);
    EXPECT_EQ(got->best_variant, "v2");
    EXPECT_EQ(got->best_ratio_declared, 1.75);
    EXPECT_EQ(got->best_ratio_tuned, 1.125);
    EXPECT_EQ(got->space_size, "99");
    EXPECT_EQ(got->last_sequence, 16);
    EXPECT_EQ(got->started_ns, 17);
    EXPECT_EQ(got->finished_ns, 18);
    EXPECT_TRUE(got->cancel_requested);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
}

// With a new database every blob would be garbage.
TEST_F(StoreTest, BlobsWithoutADatabaseAreLeftAlone) {
  std::string digest;
  {
    const auto store = OpenOrDie();
    const auto put = store->blobs().Put("kept");
    ASSERT_TRUE(put.ok()) << put.status();
    digest = *put;
  }
  const auto database = folder_.path() / "data" / "fettle.db";
  for (const bool empty : {false, true}) {
    std::filesystem::remove(database);
    if (empty) std::ofstream(database).flush();
    const auto refused = Open();
    EXPECT_TRUE(absl::IsDataLoss(refused.status())) << refused.status();
    EXPECT_NE(StatusText(refused.status()).find("backup"), std::string::npos);
    EXPECT_EQ(std::filesystem::exists(database), empty);
  }
}

TEST_F(StoreTest, MakesNothingUnlessAsked) {
  StoreOptions options;
  options.data_dir = folder_.path() / "nowhere";
  options.create = false;
  EXPECT_TRUE(absl::IsNotFound(Store::Open(options).status()));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "nowhere"));
}

TEST_F(StoreTest, TheDatabaseIsItsOwners) {
  const auto store = OpenOrDie();
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(folder_.path() / "data" / "fettle.db").permissions(),
            perms::owner_read | perms::owner_write);
}

TEST_F(StoreTest, ADamagedBlobIsReplacedWhenItComesAgain) {
  const auto store = OpenOrDie();
  const auto digest = store->blobs().Put("the right bytes");
  ASSERT_TRUE(digest.ok());
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder_.path() / "data" / "blobs")) {
    if (entry.is_regular_file()) std::ofstream(entry.path()) << "other";
  }
  EXPECT_TRUE(absl::IsDataLoss(store->blobs().Get(*digest).status()));
  ASSERT_TRUE(store->blobs().Put("the right bytes").ok());
  EXPECT_EQ(*store->blobs().Get(*digest), "the right bytes");
}

TEST_F(StoreTest, TwoServersOnOneFolderEndWithOneClearError) {
  const auto first = OpenOrDie();
  const auto second = Open();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(StatusText(second.status()).find("in use by another fettle server"), std::string::npos)
      << second.status();
  EXPECT_NE(StatusText(second.status()).find(std::to_string(getpid())), std::string::npos);
}

TEST_F(StoreTest, RefusesAFolderOfANewerVersionAndKeepsIt) {
  { OpenOrDie(); }
  {
    Connection db =
        *Connection::Open(folder_.path() / "data/fettle.db", Connection::Mode::kReadWrite);
    ASSERT_TRUE(db.Execute("PRAGMA user_version = 99").ok());
  }
  const auto refused = Open();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(StatusText(refused.status()).find("version 99"), std::string::npos);
  Connection db = *Connection::Open(folder_.path() / "data/fettle.db", Connection::Mode::kReadOnly);
  EXPECT_EQ(*db.UserVersion(), 99);
}

TEST_F(StoreTest, ADamagedFileIsRefusedAndLeftAlone) {
  {
    const auto store = OpenOrDie();
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(InsertFakeJob(*store, fmt::format("j{}", i)).ok());
    }
  }
  const std::filesystem::path file = folder_.path() / "data/fettle.db";
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(5 * 4096);
  bytes << std::string(20 * 4096, '\x5a');
  bytes.close();
  const auto size = std::filesystem::file_size(file);
  const auto refused = Open();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss) << refused.status();
  EXPECT_EQ(std::filesystem::file_size(file), size);
}

TEST_F(StoreTest, EventsAreGaplessAndRefuseARepeat) {
  const auto store = OpenOrDie();
  ASSERT_TRUE(InsertFakeJob(*store, "j1").ok());
  for (std::int64_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(store
                    ->Write([&](Connection& db) {
                      return InsertEvent(db, "j1", {i, i * 10, i == 5, fmt::format("e{}", i)});
                    })
                    .ok());
  }
  EXPECT_EQ(
      store->Write([&](Connection& db) {
             return InsertEvent(db, "j1", {3, 0, false, "again"});
           })
          .code(),
      absl::StatusCode::kAlreadyExists);
  const absl::Status read = store->Read([](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const std::vector<EventRow> events, ReadEvents(db, "j1", 2, 2));
    EXPECT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0].sequence, 3);
    EXPECT_EQ(events[1].payload, "e4");
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
}

TEST_F(StoreTest, ACandidateDigestIsUniqueInItsJob) {
  const auto store = OpenOrDie();
  ASSERT_TRUE(InsertFakeJob(*store, "j1").ok());
  CandidateRow row = FakeCandidate("j1", 1);
  ASSERT_TRUE(store->Write([&](Connection& db) { return InsertCandidate(db, row); }).ok());
  row.ordinal = 2;
  EXPECT_EQ(store->Write([&](Connection& db) { return InsertCandidate(db, row); }).code(),
            absl::StatusCode::kAlreadyExists);
  const absl::Status read = store->Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const auto found,
                            FindCandidateByDigest(db, "j1", row.digest.substr(0, 8)));
    EXPECT_TRUE(found.has_value());
    EXPECT_EQ(found->source_digest, FakeDigest('d'));
    FETTLE_ASSIGN_OR_RETURN(const auto none, FindCandidateByDigest(db, "j1", "ffff"));
    EXPECT_FALSE(none.has_value());
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
}

TEST_F(StoreTest, KeepsAnEvaluationWithItsMeasuredColumns) {
  const auto store = OpenOrDie();
  ASSERT_TRUE(InsertFakeJob(*store, "j1").ok());
  EvaluationRow row;
  row.unit_id = "j1.1.evaluate";
  row.job_id = "j1";
  row.ordinal = 1;
  row.kind = "evaluate";
  row.verification_passed = true;
  row.device_ns = 5;
  row.result_json = "{\"long\":\"" + std::string(10'000, 'x') + "\"}";
  MeasurementRow measured;
  measured.against = "denominator";
  measured.case_label = "timed/0";
  measured.ratio = 1.25;
  measured.blocks = 20;
  row.measurements.push_back(measured);
  row.builds.push_back({"key", FakeDigest('e'), "g++ 12", true, 9, "run"});
  ASSERT_TRUE(store->Write([&](Connection& db) { return InsertEvaluation(db, row); }).ok());
  EXPECT_EQ(store->Write([&](Connection& db) { return InsertEvaluation(db, row); }).code(),
            absl::StatusCode::kAlreadyExists);
  const absl::Status read = store->Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const auto got, FindEvaluation(db, row.unit_id));
    EXPECT_TRUE(got.has_value());
    EXPECT_EQ(got->result_json, row.result_json);
    EXPECT_EQ(got->verification_passed, std::optional<bool>(true));
    FETTLE_ASSIGN_OR_RETURN(const auto measurements, ListMeasurements(db, row.unit_id));
    EXPECT_EQ(measurements.size(), 1U);
    EXPECT_EQ(measurements[0].ratio, 1.25);
    EXPECT_EQ(measurements[0].blocks, 20);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
}

TEST_F(StoreTest, FindsTheTunedBaselineOfTheSameDeviceOnly) {
  const auto store = OpenOrDie();
  ASSERT_TRUE(InsertFakeJob(*store, "j1").ok());
  VariantRow variant;
  variant.id = "v1";
  variant.job_id = "j1";
  variant.ordinal = 1;
  variant.candidate_digest = FakeDigest('f');
  variant.task_digest = FakeDigest('a');
  variant.target = "cpu";
  variant.device_model = "m1";
  variant.toolchain = "g++";
  variant.is_tuned_baseline = true;
  variant.provenance_json = "{\"format\":1}";
  ASSERT_TRUE(store->Write([&](Connection& db) { return InsertVariant(db, variant); }).ok());
  const auto find = [&](const char* model) {
    bool found = false;
    EXPECT_TRUE(store
                    ->Read([&](Connection& db) -> absl::Status {
                      FETTLE_ASSIGN_OR_RETURN(
                          const auto tuned,
                          FindTunedBaseline(db, FakeDigest('a'), "cpu", model, "g++"));
                      found = tuned.has_value();
                      return absl::OkStatus();
                    })
                    .ok());
    return found;
  };
  EXPECT_TRUE(find("m1"));
  EXPECT_FALSE(find("m2"));
  ASSERT_TRUE(store
                  ->Write([&](Connection& db) {
                    return SetVariantStatus(db, "v1", variant_status::kDemoted, "slower now");
                  })
                  .ok());
  EXPECT_FALSE(find("m1"));
  const absl::Status read = store->Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const auto got, FindVariant(db, "v"));
    EXPECT_EQ(got->provenance_json, "{\"format\":1}");
    EXPECT_EQ(got->status_reason, "slower now");
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
}

TEST_F(StoreTest, BackupHoldsDatabaseAndBlobs) {
  const auto store = OpenOrDie();
  ASSERT_TRUE(InsertFakeJob(*store, "j1").ok());
  const std::string digest = *store->blobs().Put("task files");
  const std::filesystem::path target = folder_.path() / "backup";
  ASSERT_TRUE(BackupDataDir(folder_.path() / "data", target).ok());
  EXPECT_EQ(store->Backup(target).code(), absl::StatusCode::kAlreadyExists);
  StoreOptions options;
  options.data_dir = target;
  const auto copy = Store::Open(std::move(options));
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(*(*copy)->blobs().Get(digest), "task files");
  EXPECT_TRUE((*copy)
                  ->Read([](Connection& db) -> absl::Status {
                    FETTLE_ASSIGN_OR_RETURN(const auto job, FindJob(db, "j1"));
                    EXPECT_TRUE(job.has_value());
                    return absl::OkStatus();
                  })
                  .ok());
}

TEST_F(StoreTest, ABackupThatFailsLeavesNothing) {
  const std::filesystem::path data = folder_.path() / "data";
  const std::filesystem::path target = folder_.path() / "backup";
  {
    const auto store = OpenOrDie();
    ASSERT_TRUE(store->blobs().Put("task files").ok());
  }
  std::filesystem::remove(data / "fettle.db-wal");
  std::ofstream(data / "fettle.db") << "no database";
  const absl::Status failed = BackupDataDir(data, target);
  ASSERT_FALSE(failed.ok());
  EXPECT_FALSE(std::filesystem::exists(target)) << failed;
}

// Names what could not be written, why and what to do, and leaves nothing that could be taken for a
// backup.
void ExpectNoRoom(const absl::Status& status, const std::filesystem::path& target,
                  const std::string& file, const std::string& cause) {
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  const std::string message(status.message());
  for (const std::string& said : {target.string(), file, cause, std::string("free some space")}) {
    EXPECT_NE(message.find(said), std::string::npos) << message << "\n does not say " << said;
  }
  EXPECT_TRUE(std::filesystem::is_empty(target.parent_path())) << message;
}

std::string Noise(std::size_t size) {
  std::mt19937 random(1);
  std::string noise(size, ' ');
  for (char& c : noise) c = static_cast<char>(random());
  return noise;
}

TEST_F(StoreTest, ABackupThatFindsNoRoomSaysSoAndLeavesNothing) {
  const std::filesystem::path parent = folder_.path() / "backups";
  std::filesystem::create_directory(parent);
  const auto store = OpenOrDie();
  ASSERT_TRUE(InsertFakeJob(*store, "j1").ok());
  const std::string digest = *store->blobs().Put(Noise(4 << 20));
  // Files may not grow beyond 2 MiB: room for the database, not for the blob.
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit less { 2 << 20, before.rlim_max };
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &less), 0);
  const absl::Status failed = store->Backup(parent / "today");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ExpectNoRoom(failed, parent / "today", digest, "File too large");
  EXPECT_TRUE(store->Backup(parent / "today").ok()) << "the next one finds nothing in its way";
}

TEST_F(StoreTest, ABackupToAFullDiskSaysSoAndLeavesNothing) {
  const std::filesystem::path disk = folder_.path() / "disk";
  std::filesystem::create_directory(disk);
  const auto store = OpenOrDie();
  ASSERT_TRUE(InsertFakeJob(*store, "j1").ok());
  const std::string digest = *store->blobs().Put(Noise(4 << 20));
  for (const auto& [size, file] :
       {std::pair<const char*, std::string>{"size=64k", "fettle.db"}, {"size=2m", digest}}) {
    if (mount("none", disk.c_str(), "tmpfs", 0, size) != 0) {
      GTEST_SKIP() << "a small file system cannot be mounted here: " << std::strerror(errno);
    }
    const absl::Status failed = BackupDataDir(folder_.path() / "data", disk / "today");
    ExpectNoRoom(failed, disk / "today", file, file == digest ? "No space left" : "full");
    ASSERT_EQ(umount(disk.c_str()), 0);
  }
}

TEST_F(StoreTest, KillInsideATransactionKeepsRowAndEventTogether) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto store = OpenOrDie();
    InsertFakeJob(*store, "j1").IgnoreError();
    store
        ->Write([&](Connection& db) -> absl::Status {
          InsertCandidate(db, FakeCandidate("j1", 1)).IgnoreError();
          kill(getpid(), SIGKILL);
          return InsertEvent(db, "j1", {1, 1, false, "judged"});
        })
        .IgnoreError();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto store = OpenOrDie();  // Its lock died with it.
  const absl::Status read = store->Read([](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const auto job, FindJob(db, "j1"));
    EXPECT_TRUE(job.has_value());
    FETTLE_ASSIGN_OR_RETURN(const auto candidates, ListCandidates(db, "j1", "", 0, 10));
    EXPECT_TRUE(candidates.empty());
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
}

}  // namespace
}  // namespace fettle
