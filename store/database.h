// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

struct sqlite3;
struct sqlite3_stmt;

namespace fettle {

// One prepared statement. Bind indices start at 1, column indices at 0, as in SQLite. Not
// thread-safe; must not outlive its connection.
class Statement {
 public:
  Statement(Statement&&) = default;
  Statement& operator=(Statement&&) = default;

  template <std::integral T>
  Statement& Bind(int index, T value) {
    return BindInt64(index, static_cast<std::int64_t>(value));  // Seeds: the same 64 bits.
  }
  Statement& Bind(int index, double value);
  Statement& Bind(int index, std::string_view text);
  Statement& BindBlob(int index, std::string_view bytes);
  Statement& BindNull(int index);

  // Advances to the next row; false at the end. Reports any earlier bind error.
  absl::StatusOr<bool> Step();
  // Runs a statement that yields no row, then resets it.
  absl::Status Run();
  // Ends the current execution and clears the bindings, ready for the next use. A SELECT left
  // unfinished keeps a read transaction open and the WAL growing.
  void Reset();

  std::int64_t Int64(int column) const;
  double Double(int column) const;
  std::string Text(int column) const;  // Also blobs; empty for NULL.

 private:
  friend class Connection;
  struct Finalize {
    void operator()(sqlite3_stmt* stmt) const;
  };
  explicit Statement(sqlite3_stmt* stmt) : stmt_(stmt) {}
  Statement& BindInt64(int index, std::int64_t value);

  std::unique_ptr<sqlite3_stmt, Finalize> stmt_;
  int bind_error_ = 0;
};

// A statement taken from a connection's cache; reset when it goes out of scope.
class BorrowedStatement {
 public:
  explicit BorrowedStatement(Statement* statement) : statement_(statement) {}
  BorrowedStatement(const BorrowedStatement&) = delete;
  BorrowedStatement& operator=(const BorrowedStatement&) = delete;
  BorrowedStatement(BorrowedStatement&& other) noexcept
      : statement_(std::exchange(other.statement_, nullptr)) {}
  BorrowedStatement& operator=(BorrowedStatement&&) = delete;
  ~BorrowedStatement() {
    if (statement_ != nullptr) statement_->Reset();
  }
  Statement* operator->() const { return statement_; }
  Statement& operator*() const { return *statement_; }

 private:
  Statement* statement_;
};

// One schema step. Steps are append-only: a released step is never edited.
struct Migration {
  int version;      // 1, 2, 3, ... without gaps.
  const char* sql;  // May hold several statements.
};

// Not thread-safe.
class Connection {
 public:
  enum class Mode { kReadWrite, kReadOnly };

  // Opens `path` and applies the connection pragmas. Use ":memory:" in tests.
  static absl::StatusOr<Connection> Open(const std::filesystem::path& path, Mode mode);

  absl::StatusOr<Statement> Prepare(std::string_view sql);
  // Prepares `sql`, a literal, once per connection. The same text must not be borrowed twice at a
  // time.
  absl::StatusOr<BorrowedStatement> Cached(const char* sql);
  absl::Status Execute(const char* sql);

  // Brings the schema to the last of `steps` inside one transaction.
  // kFailedPrecondition: the file was written by a newer program, or by another one.
  absl::Status Migrate(std::span<const Migration> steps);
  absl::StatusOr<std::int64_t> UserVersion();

  // Runs `body` between BEGIN IMMEDIATE and COMMIT; rolls back on error.
  absl::Status Transaction(const std::function<absl::Status()>& body);

  // kDataLoss when PRAGMA quick_check or foreign_key_check finds a fault.
  absl::Status CheckIntegrity();

  // From now on a commit returns before the log is on the disk; whoever needs it there syncs it.
  absl::Status SyncLogElsewhere();

  // Writes a consistent copy to `path` while others read and write. Never overwrites.
  absl::Status BackupTo(const std::filesystem::path& path);

  // Limits the file to `pages` pages; for tests of a full disk.
  absl::Status LimitPages(std::int64_t pages);

  std::int64_t changes() const;  // Rows changed by the last statement.

 private:
  struct Close {
    void operator()(sqlite3* db) const;
  };
  explicit Connection(sqlite3* db) : db_(db) {}

  absl::StatusOr<std::int64_t> PragmaValue(const char* sql);
  // SQLite ignores a pragma that it cannot obey, so ask and compare the answer.
  absl::Status RequirePragma(const char* sql, std::string_view expected);

  std::unique_ptr<sqlite3, Close> db_;
  std::map<std::string, Statement, std::less<>> cache_;  // After db_: finalized before it closes.
};

}  // namespace fettle
