// SPDX-License-Identifier: Apache-2.0
#include "store/database.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "store/files.h"

namespace fettle {
namespace {

constexpr int kApplicationId = 0x4654544c;  // "FTTL", shown by file(1).
constexpr int kBusyTimeoutMs = 5'000;

absl::StatusCode CodeFor(int rc) {
  switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kUnavailable;
    case SQLITE_CONSTRAINT:
      return (rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY)
                 ? absl::StatusCode::kAlreadyExists
                 : absl::StatusCode::kFailedPrecondition;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_IOERR:
      // A full disk can also show as a failed write of the log.
      return rc == SQLITE_IOERR_WRITE ? absl::StatusCode::kResourceExhausted
                                      : absl::StatusCode::kInternal;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return absl::StatusCode::kFailedPrecondition;
    case SQLITE_INTERRUPT:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status ErrorFrom(sqlite3* db, int rc, std::string_view what) {
  return absl::Status(
      CodeFor(rc), fmt::format("sqlite: {}: {} ({})", what.substr(0, 200), sqlite3_errmsg(db), rc));
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* stmt) const { sqlite3_finalize(stmt); }
void Connection::Close::operator()(sqlite3* db) const { sqlite3_close_v2(db); }

Statement& Statement::BindInt64(int index, std::int64_t value) {
  if (const int rc = sqlite3_bind_int64(stmt_.get(), index, value); rc != 0) bind_error_ = rc;
  return *this;
}
Statement& Statement::Bind(int index, double value) {
  if (const int rc = sqlite3_bind_double(stmt_.get(), index, value); rc != 0) bind_error_ = rc;
  return *this;
}
Statement& Statement::Bind(int index, std::string_view text) {
  // A null pointer would bind NULL, and an empty string_view may hold one.
  const char* data = text.data() == nullptr ? "" : text.data();
  const int rc =
      sqlite3_bind_text64(stmt_.get(), index, data, text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  if (rc != 0) bind_error_ = rc;
  return *this;
}
Statement& Statement::BindBlob(int index, std::string_view bytes) {
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  const int rc = sqlite3_bind_blob64(stmt_.get(), index, data, bytes.size(), SQLITE_TRANSIENT);
  if (rc != 0) bind_error_ = rc;
  return *this;
}
Statement& Statement::BindNull(int index) {
  if (const int rc = sqlite3_bind_null(stmt_.get(), index); rc != 0) bind_error_ = rc;
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  sqlite3* db = sqlite3_db_handle(stmt_.get());
  if (bind_error_ != 0) {
    return absl::InternalError(fmt::format("sqlite: bind: {}", sqlite3_errstr(bind_error_)));
  }
  switch (const int rc = sqlite3_step(stmt_.get()); rc) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return ErrorFrom(db, rc, sqlite3_sql(stmt_.get()));
  }
}

absl::Status Statement::Run() {
  const absl::StatusOr<bool> row = Step();
  Reset();
  FETTLE_RETURN_IF_ERROR(row.status());
  if (*row) return absl::InternalError("sqlite: Run() on a statement that yields rows");
  return absl::OkStatus();
}

void Statement::Reset() {
  sqlite3_reset(stmt_.get());
  sqlite3_clear_bindings(stmt_.get());
  bind_error_ = 0;
}

std::int64_t Statement::Int64(int column) const {
  return sqlite3_column_int64(stmt_.get(), column);
}
double Statement::Double(int column) const { return sqlite3_column_double(stmt_.get(), column); }
std::string Statement::Text(int column) const {
  const auto* text = static_cast<const char*>(sqlite3_column_blob(stmt_.get(), column));
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(stmt_.get(), column));
  return text == nullptr ? std::string() : std::string(text, size);
}

absl::StatusOr<Connection> Connection::Open(const std::filesystem::path& path, Mode mode) {
  const int flags =
      SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
      (mode == Mode::kReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Connection connection(raw);  // Closes `raw` even when the open failed.
  if (rc != SQLITE_OK) return ErrorFrom(raw, rc, "open " + path.string());
  // It holds secret seeds. SQLite gives its other files the same mode.
  if (mode == Mode::kReadWrite && path != ":memory:") ::chmod(path.c_str(), 0600);
  sqlite3_busy_timeout(raw, kBusyTimeoutMs);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  FETTLE_RETURN_IF_ERROR(connection.Execute("PRAGMA foreign_keys = ON"));
  FETTLE_RETURN_IF_ERROR(connection.RequirePragma("PRAGMA foreign_keys", "1"));
  if (mode == Mode::kReadWrite) {
    // The first statement that reads the file.
    if (const absl::Status read = connection.Execute("PRAGMA schema_version"); !read.ok()) {
      return absl::Status(
          absl::IsUnknown(read) ? absl::StatusCode::kDataLoss : read.code(),
          fmt::format("open {}: {}; the file is left as it is: restore a backup beside it",
                      path.string(), std::string(read.message())));
    }
    FETTLE_RETURN_IF_ERROR(connection.RequirePragma("PRAGMA journal_mode = WAL",
                                                    path == ":memory:" ? "memory" : "wal"));
    FETTLE_RETURN_IF_ERROR(connection.Execute("PRAGMA synchronous = FULL"));
    FETTLE_RETURN_IF_ERROR(connection.RequirePragma("PRAGMA synchronous", "2"));
  }
  return connection;
}

absl::StatusOr<Statement> Connection::Prepare(std::string_view sql) {
  sqlite3_stmt* stmt = nullptr;
  const int rc = sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()),
                                    SQLITE_PREPARE_PERSISTENT, &stmt, nullptr);
  if (rc != SQLITE_OK) return ErrorFrom(db_.get(), rc, sql);
  return Statement(stmt);
}

absl::StatusOr<BorrowedStatement> Connection::Cached(const char* sql) {
  auto found = cache_.find(std::string_view(sql));
  if (found == cache_.end()) {
    FETTLE_ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
    found = cache_.emplace(sql, std::move(statement)).first;
  }
  return BorrowedStatement(&found->second);
}

absl::Status Connection::Execute(const char* sql) {
  const int rc = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? absl::OkStatus() : ErrorFrom(db_.get(), rc, sql);
}

absl::Status Connection::Transaction(const std::function<absl::Status()>& body) {
  FETTLE_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = body();
  if (status.ok()) status = Execute("COMMIT");
  // A failed COMMIT (e.g. a deferred constraint) leaves the transaction open.
  if (!status.ok() && sqlite3_get_autocommit(db_.get()) == 0) {
    Execute("ROLLBACK").IgnoreError();
  }
  return status;
}

absl::StatusOr<std::int64_t> Connection::PragmaValue(const char* sql) {
  FETTLE_ASSIGN_OR_RETURN(Statement read, Prepare(sql));
  FETTLE_ASSIGN_OR_RETURN(const bool has_row, read.Step());
  return has_row ? read.Int64(0) : 0;
}

absl::StatusOr<std::int64_t> Connection::UserVersion() {
  return PragmaValue("PRAGMA user_version");
}

absl::Status Connection::RequirePragma(const char* sql, std::string_view expected) {
  FETTLE_ASSIGN_OR_RETURN(Statement read, Prepare(sql));
  FETTLE_ASSIGN_OR_RETURN(const bool has_row, read.Step());
  const std::string answer = has_row ? read.Text(0) : "nothing";
  if (answer == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("sqlite: {} answered {}", sql, answer));
}

absl::Status Connection::Migrate(std::span<const Migration> steps) {
  return Transaction([&]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const std::int64_t application, PragmaValue("PRAGMA application_id"));
    FETTLE_ASSIGN_OR_RETURN(const std::int64_t current, UserVersion());
    if ((application != 0 && application != kApplicationId) || (application == 0 && current != 0)) {
      return absl::FailedPreconditionError("the database file is not one of fettle's");
    }
    if (current > static_cast<std::int64_t>(steps.size())) {
      return absl::FailedPreconditionError(fmt::format(
          "the database has schema version {} and this program knows versions up to {}; start the "
          "newer fettle that wrote it, or restore a backup",
          current, steps.size()));
    }
    for (const Migration& step : steps.subspan(static_cast<std::size_t>(current))) {
      FETTLE_RETURN_IF_ERROR(Execute(step.sql));
      // PRAGMA takes no bound values; the version is ours, not the user's.
      FETTLE_RETURN_IF_ERROR(
          Execute(fmt::format("PRAGMA user_version = {}", step.version).c_str()));
    }
    if (application == kApplicationId) return absl::OkStatus();
    return Execute(fmt::format("PRAGMA application_id = {}", kApplicationId).c_str());
  });
}

absl::Status Connection::CheckIntegrity() {
  FETTLE_ASSIGN_OR_RETURN(Statement quick, Prepare("PRAGMA quick_check(1)"));
  FETTLE_ASSIGN_OR_RETURN(const bool has_row, quick.Step());
  if (!has_row || quick.Text(0) != "ok") {
    return absl::DataLossError(
        fmt::format("sqlite: quick_check: {}", has_row ? quick.Text(0) : "no answer"));
  }
  FETTLE_ASSIGN_OR_RETURN(Statement keys, Prepare("PRAGMA foreign_key_check"));
  FETTLE_ASSIGN_OR_RETURN(const bool violated, keys.Step());
  if (violated) {
    return absl::DataLossError(
        fmt::format("sqlite: dangling foreign key in table {}", keys.Text(0)));
  }
  return absl::OkStatus();
}

absl::Status Connection::SyncLogElsewhere() {
  FETTLE_RETURN_IF_ERROR(Execute("PRAGMA synchronous = NORMAL"));
  return RequirePragma("PRAGMA synchronous", "1");
}

absl::Status Connection::BackupTo(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return absl::AlreadyExistsError(fmt::format("write {}: it exists already", path.string()));
  }
  const std::filesystem::path temporary = fmt::format("{}.{}.tmp", path.string(), getpid());
  const absl::Status written = [&]() -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(Statement vacuum, Prepare("VACUUM INTO ?1"));
    FETTLE_RETURN_IF_ERROR(vacuum.Bind(1, std::string_view(temporary.native())).Run());
    return RenameDurably(temporary, path);
  }();
  if (written.ok()) return written;
  std::filesystem::remove(temporary, error);
  return absl::Status(written.code(),
                      fmt::format("write {}: {}", path.string(), StatusText(written)));
}

absl::Status Connection::LimitPages(std::int64_t pages) {
  return Execute(fmt::format("PRAGMA max_page_count = {}", pages).c_str());
}

std::int64_t Connection::changes() const { return sqlite3_changes64(db_.get()); }

}  // namespace fettle
