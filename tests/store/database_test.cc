// SPDX-License-Identifier: Apache-2.0
#include "store/database.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "store/schema.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

constexpr Migration kOne[] = {{1, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)"}};
constexpr Migration kTwo[] = {
    {1, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)"},
    {2, "ALTER TABLE t ADD COLUMN size INTEGER NOT NULL DEFAULT 7"},
};
constexpr Migration kBroken[] = {
    {1, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL)"},
    {2, "ALTER TABLE t ADD COLUMN size INTEGER NOT NULL DEFAULT 7"},
    {3, "CREATE TABLE nonsense ("},
};

class DatabaseTest : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "x.db"; }
  Connection OpenOrDie(Connection::Mode mode = Connection::Mode::kReadWrite) {
    absl::StatusOr<Connection> db = Connection::Open(path(), mode);
    FETTLE_CHECK(db.ok());
    return *std::move(db);
  }
  static std::int64_t Count(Connection& db) {
    absl::StatusOr<Statement> select = db.Prepare("SELECT count(*) FROM t");
    FETTLE_CHECK(select.ok() && select->Step().ok());
    return select->Int64(0);
  }

  TemporaryFolder folder_;
};

TEST_F(DatabaseTest, MigratesStepByStepAndKeepsRows) {
  {
    Connection db = OpenOrDie();
    ASSERT_TRUE(db.Migrate(kOne).ok());
    ASSERT_TRUE(db.Execute("INSERT INTO t VALUES (1, 'a')").ok());
  }
  Connection db = OpenOrDie();
  ASSERT_TRUE(db.Migrate(kTwo).ok());
  EXPECT_EQ(*db.UserVersion(), 2);
  absl::StatusOr<Statement> select = db.Prepare("SELECT name, size FROM t");
  ASSERT_TRUE(select.ok());
  ASSERT_TRUE(*select->Step());
  EXPECT_EQ(select->Text(0), "a");
  EXPECT_EQ(select->Int64(1), 7);
}

TEST_F(DatabaseTest, AFailedMigrationChangesNothing) {
  Connection db = OpenOrDie();
  ASSERT_TRUE(db.Migrate(kOne).ok());
  EXPECT_FALSE(db.Migrate(kBroken).ok());
  EXPECT_EQ(*db.UserVersion(), 1);
  EXPECT_FALSE(db.Prepare("SELECT size FROM t").ok());
}

TEST_F(DatabaseTest, RefusesANewerFileAndAForeignOne) {
  {
    Connection db = OpenOrDie();
    ASSERT_TRUE(db.Migrate(kTwo).ok());
    const absl::Status newer = db.Migrate(kOne);
    EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(StatusText(newer).find("version 2"), std::string::npos) << newer;
  }
  Connection foreign = *Connection::Open(folder_.path() / "y.db", Connection::Mode::kReadWrite);
  ASSERT_TRUE(foreign.Execute("PRAGMA application_id = 5").ok());
  EXPECT_EQ(foreign.Migrate(kOne).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DatabaseTest, RollsBackAFailedTransaction) {
  Connection db = OpenOrDie();
  ASSERT_TRUE(db.Migrate(kOne).ok());
  const absl::Status status = db.Transaction([&]() -> absl::Status {
    FETTLE_RETURN_IF_ERROR(db.Execute("INSERT INTO t VALUES (1, 'a')"));
    return absl::AbortedError("no");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Count(db), 0);
}

TEST_F(DatabaseTest, MapsErrorsByCode) {
  Connection db = OpenOrDie();
  ASSERT_TRUE(db.Migrate(kOne).ok());
  ASSERT_TRUE(db.Execute("INSERT INTO t VALUES (1, 'a')").ok());
  EXPECT_EQ(db.Execute("INSERT INTO t VALUES (1, 'b')").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(db.Execute("INSERT INTO t VALUES (2, NULL)").code(),
            absl::StatusCode::kFailedPrecondition);
  Connection reader = OpenOrDie(Connection::Mode::kReadOnly);
  EXPECT_EQ(reader.Execute("INSERT INTO t VALUES (3, 'c')").code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(DatabaseTest, AFullDiskIsResourceExhaustedAndLosesNothing) {
  Connection db = OpenOrDie();
  ASSERT_TRUE(db.Migrate(kOne).ok());
  ASSERT_TRUE(db.LimitPages(20).ok());
  std::int64_t stored = 0;
  absl::Status status;
  while (status.ok() && stored < 1'000) {
    status = db.Transaction([&]() -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(BorrowedStatement insert,
                              db.Cached("INSERT INTO t (name) VALUES (?)"));
      insert->Bind(1, std::string_view(std::string(2'000, 'x')));
      return insert->Run();
    });
    if (status.ok()) ++stored;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_GT(stored, 0);
  EXPECT_EQ(Count(db), stored);
  ASSERT_TRUE(db.LimitPages(100'000).ok());
  EXPECT_TRUE(db.Execute("INSERT INTO t (name) VALUES ('after')").ok());
}

TEST_F(DatabaseTest, KillBetweenWriteAndCommitLeavesTheLastCommit) {
  {
    Connection db = OpenOrDie();
    ASSERT_TRUE(db.Migrate(kOne).ok());
  }
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Connection db = OpenOrDie();
    db.Execute("INSERT INTO t VALUES (1, 'kept')").IgnoreError();
    db.Transaction([&]() -> absl::Status {
        db.Execute("INSERT INTO t VALUES (2, 'lost')").IgnoreError();
        kill(getpid(), SIGKILL);
        return absl::OkStatus();
      }).IgnoreError();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  Connection db = OpenOrDie();
  EXPECT_TRUE(db.CheckIntegrity().ok());
  EXPECT_EQ(Count(db), 1);
}

TEST_F(DatabaseTest, BackupIsACompleteCopyAndNeverOverwrites) {
  Connection db = OpenOrDie();
  ASSERT_TRUE(db.Migrate(kOne).ok());
  ASSERT_TRUE(db.Execute("INSERT INTO t VALUES (1, 'in the log only')").ok());
  const std::filesystem::path copy = folder_.path() / "copy.db";
  ASSERT_TRUE(db.BackupTo(copy).ok());
  EXPECT_FALSE(db.BackupTo(copy).ok());
  Connection opened = *Connection::Open(copy, Connection::Mode::kReadOnly);
  EXPECT_EQ(Count(opened), 1);
}

TEST_F(DatabaseTest, EmptyTextIsNotNull) {
  Connection db = OpenOrDie();
  ASSERT_TRUE(db.Migrate(kOne).ok());
  absl::StatusOr<Statement> insert = db.Prepare("INSERT INTO t (id, name) VALUES (?, ?)");
  ASSERT_TRUE(insert.ok());
  EXPECT_TRUE(insert->Bind(1, 1).Bind(2, std::string_view()).Run().ok());
}

TEST_F(DatabaseTest, TheSchemaIsAppendOnlyFromOne) {
  int expected = 1;
  for (const Migration& step : SchemaSteps()) EXPECT_EQ(step.version, expected++);
  Connection db = OpenOrDie();
  ASSERT_TRUE(db.Migrate(SchemaSteps()).ok());
  EXPECT_TRUE(db.CheckIntegrity().ok());
}

}  // namespace
}  // namespace fettle
