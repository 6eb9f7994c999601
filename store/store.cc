// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <random>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/status_macros.h"
#include "store/schema.h"

namespace fettle {
namespace {

constexpr char kDatabase[] = "fettle.db";
constexpr char kBlobs[] = "blobs";
constexpr char kLock[] = "lock";

absl::StatusOr<Fd> LockFolder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kLock;
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (fd.get() < 0) return ErrnoStatus(errno, "open " + path.string());
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoStatus(errno, "lock " + path.string());
    char holder[32] = {};
    const ssize_t got = pread(fd.get(), holder, sizeof(holder) - 1, 0);
    return absl::UnavailableError(fmt::format(
        "data folder {} is in use by another fettle server{}; stop it, or choose another folder "
        "with --data-dir",
        folder.string(), got > 0 ? fmt::format(" (process {})", holder) : ""));
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return ErrnoStatus(errno, "write " + path.string());
  }
  return fd;
}

// Copies the database beside itself before an older schema is changed.
absl::Status BackupBeforeMigration(Connection& db, const std::filesystem::path& data_dir) {
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t version, db.UserVersion());
  if (version <= 0 || version >= static_cast<std::int64_t>(SchemaSteps().size())) {
    return absl::OkStatus();  // New, current, or newer than this program (Migrate refuses).
  }
  const absl::Status copied =
      db.BackupTo(data_dir / fmt::format("fettle.v{}.{}.bak", version, SystemClock().NowNs()));
  if (copied.ok()) return copied;
  return absl::Status(
      copied.code(), fmt::format("copy the database before it is migrated, which was not begun: {}",
                                 StatusText(copied)));
}

absl::StatusOr<std::string> FolderId(Connection& db) {
  FETTLE_ASSIGN_OR_RETURN(Statement select,
                          db.Prepare("SELECT value FROM meta WHERE key = 'data_dir_id'"));
  FETTLE_ASSIGN_OR_RETURN(const bool found, select.Step());
  if (found) return select.Text(0);
  select.Reset();
  std::random_device random;
  const std::string id = fmt::format("{:08x}{:08x}", random(), random());
  FETTLE_ASSIGN_OR_RETURN(Statement insert,
                          db.Prepare("INSERT INTO meta (key, value) VALUES ('data_dir_id', ?)"));
  FETTLE_RETURN_IF_ERROR(insert.Bind(1, std::string_view(id)).Run());
  return id;
}

absl::Status CopyBlobs(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator it(from, error), end;
  for (; !error && it != end; it.increment(error)) {
    // What a server is writing at this moment.
    if (it->path().extension() == ".tmp") continue;
    const std::filesystem::path copy = to / it->path().lexically_relative(from);
    FETTLE_RETURN_IF_ERROR(it->is_directory(error) ? MakeFolder(copy) : CopyFile(it->path(), copy));
  }
  if (error) return ErrnoStatus(error.value(), "list " + from.string());
  return MakeFolder(to);
}

absl::Status BackupWith(Connection& db, const std::filesystem::path& data_dir,
                        const std::filesystem::path& asked) {
  std::error_code error;
  const std::filesystem::path target = std::filesystem::absolute(asked, error);
  const auto failed = [&target](const absl::Status& status) {
    return absl::Status(
        status.code(), fmt::format("backup to {}: {}{}", target.string(), StatusText(status),
                                   absl::IsResourceExhausted(status)
                                       ? "; free some space there, or name a folder on another disk"
                                       : ""));
  };
  if (std::filesystem::exists(target, error)) {
    return absl::AlreadyExistsError(
        fmt::format("backup to {}: it exists already; name a new folder", target.string()));
  }
  if (const absl::Status made = MakeFolder(target.parent_path()); !made.ok()) return failed(made);
  // Under another name until it is whole: half a backup would be taken for one.
  std::string part = target.string() + ".part-XXXXXX";
  if (mkdtemp(part.data()) == nullptr) return failed(ErrnoStatus(errno, "create folder " + part));
  const absl::Status copied = [&]() -> absl::Status {
    const std::filesystem::path folder(part);
    // The database first: every blob that it names exists by then.
    FETTLE_RETURN_IF_ERROR(db.BackupTo(folder / kDatabase));
    FETTLE_RETURN_IF_ERROR(CopyBlobs(data_dir / kBlobs, folder / kBlobs));
    {
      FETTLE_ASSIGN_OR_RETURN(Connection copy,
                              Connection::Open(folder / kDatabase, Connection::Mode::kReadOnly));
      FETTLE_RETURN_IF_ERROR(copy.CheckIntegrity());
    }
    return RenameDurably(folder, target);
  }();
  if (copied.ok()) return copied;
  std::filesystem::remove_all(part, error);
  return failed(copied);
}

}  // namespace

// A folder whose blobs have lost their database must not get a new one: everything in it would be
// garbage then.
absl::Status CheckDatabase(const StoreOptions& options) {
  const std::filesystem::path database = options.data_dir / kDatabase;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(database, error);
  if (!error && size > 0) return absl::OkStatus();
  std::filesystem::recursive_directory_iterator it(options.data_dir / kBlobs, error), end;
  for (; !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    return absl::DataLossError(fmt::format(
        "data folder {} holds blobs but {} fettle.db; restore it from a backup, or move the folder "
        "{} away to start anew",
        options.data_dir.string(), size == 0 ? "an empty" : "no", kBlobs));
  }
  if (options.create) return absl::OkStatus();
  return absl::NotFoundError(
      fmt::format("data folder {}: there is no fettle.db in it", options.data_dir.string()));
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(StoreOptions options) {
  FETTLE_RETURN_IF_ERROR(CheckDatabase(options));
  FETTLE_RETURN_IF_ERROR(MakeFolder(options.data_dir));
  FETTLE_ASSIGN_OR_RETURN(Fd lock, LockFolder(options.data_dir));
  FETTLE_ASSIGN_OR_RETURN(Connection writer, Connection::Open(options.data_dir / kDatabase,
                                                              Connection::Mode::kReadWrite));
  std::unique_ptr<Store> store(new Store(std::move(options), std::move(lock), std::move(writer)));
  FETTLE_RETURN_IF_ERROR(store->Prepare());
  return store;
}

absl::Status Store::Prepare() {
  const std::filesystem::path database = options_.data_dir / kDatabase;
  FETTLE_RETURN_IF_ERROR(BackupBeforeMigration(writer_, options_.data_dir));
  if (absl::Status migrated = writer_.Migrate(SchemaSteps()); !migrated.ok()) {
    return absl::Status(migrated.code(),
                        fmt::format("open {}: {}", database.string(), StatusText(migrated)));
  }
  if (options_.check_integrity) {
    if (absl::Status sound = writer_.CheckIntegrity(); !sound.ok()) {
      return absl::DataLossError(
          fmt::format("open {}: {}; the file is left as it is: restore a backup beside it",
                      database.string(), StatusText(sound)));
    }
  }
  FETTLE_ASSIGN_OR_RETURN(data_dir_id_, FolderId(writer_));
  FETTLE_ASSIGN_OR_RETURN(schema_version_, writer_.UserVersion());
  for (int i = 0; i < std::max(1, options_.readers); ++i) {
    FETTLE_ASSIGN_OR_RETURN(Connection reader,
                            Connection::Open(database, Connection::Mode::kReadOnly));
    readers_.push_back(std::make_unique<Connection>(std::move(reader)));
  }
  // From here on a commit itself syncs nothing (but before and after the log goes into the
  // database); LogSync does, for all commits since its last time.
  FETTLE_RETURN_IF_ERROR(writer_.SyncLogElsewhere());
  FETTLE_ASSIGN_OR_RETURN(log_, LogSync::Start(database.string() + "-wal", options_.before_sync));
  FETTLE_ASSIGN_OR_RETURN(blobs_, BlobFiles::Open({.root = options_.data_dir / kBlobs}));
  return absl::OkStatus();
}

Store::~Store() {
  readers_.clear();
  log_.reset();
  if (blobs_ == nullptr) return;  // Refused while it was opened: the file stays as it is.
  writer_.Execute("PRAGMA optimize").IgnoreError();
  writer_.Execute("PRAGMA wal_checkpoint(TRUNCATE)").IgnoreError();
}

absl::Status Store::WriteAhead(const std::function<absl::Status(Connection&)>& body) {
  const std::lock_guard lock(write_mutex_);
  FETTLE_RETURN_IF_ERROR(log_->status());
  const std::int64_t number = ++writes_;
  const absl::Status written = writer_.Transaction([&]() -> absl::Status {
    FETTLE_RETURN_IF_ERROR(body(writer_));
    if (options_.before_commit) return options_.before_commit(number);
    return absl::OkStatus();
  });
  if (written.ok()) log_->Committed();
  return written;
}

absl::Status Store::Write(const std::function<absl::Status(Connection&)>& body) {
  FETTLE_RETURN_IF_ERROR(WriteAhead(body));
  return log_->Wait();
}

void Store::WhenDurable(std::function<void()> action) { log_->Then(std::move(action)); }

void Store::Flush() { log_->Flush(); }

absl::Status Store::ReadAhead(const std::function<absl::Status(Connection&)>& body) const {
  std::unique_ptr<Connection> reader;
  {
    std::unique_lock lock(read_mutex_);
    reader_free_.wait(lock, [&] { return !readers_.empty(); });
    reader = std::move(readers_.back());
    readers_.pop_back();
  }
  const absl::Status status = body(*reader);
  {
    const std::lock_guard lock(read_mutex_);
    readers_.push_back(std::move(reader));
  }
  reader_free_.notify_one();
  return status;
}

absl::Status Store::Read(const std::function<absl::Status(Connection&)>& body) const {
  const absl::Status status = ReadAhead(body);
  // Where the disk fails, what is stored can still be looked at.
  log_->Wait().IgnoreError();
  return status;
}

absl::Status Store::Backup(const std::filesystem::path& target) {
  const std::lock_guard lock(write_mutex_);
  return BackupWith(writer_, options_.data_dir, target);
}

absl::Status Store::LimitPages(std::int64_t pages) {
  const std::lock_guard lock(write_mutex_);
  return writer_.LimitPages(pages);
}

absl::Status BackupDataDir(const std::filesystem::path& data_dir,
                           const std::filesystem::path& target) {
  std::error_code error;
  if (!std::filesystem::exists(data_dir / kDatabase, error)) {
    return absl::NotFoundError(fmt::format("no fettle database in {}", data_dir.string()));
  }
  FETTLE_ASSIGN_OR_RETURN(Connection db,
                          Connection::Open(data_dir / kDatabase, Connection::Mode::kReadOnly));
  return BackupWith(db, data_dir, target);
}

}  // namespace fettle
