// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "store/blob_files.h"
#include "store/database.h"
#include "store/files.h"
#include "store/log_sync.h"

namespace fettle {

struct StoreOptions {
  std::filesystem::path data_dir;
  int readers = 2;
  bool check_integrity = true;
  bool create = true;  // False: kNotFound where there is no database.
  // Called before each transaction is committed, with its number from 1; an error rolls it back.
  // For tests of crashes and full disks.
  std::function<absl::Status(std::int64_t)> before_commit;
  LogSync::BeforeSync before_sync;
};

// Everything that a server keeps: the database fettle.db and the blobs of one data folder, which it
// locks against a second server. One connection writes, under a mutex; a few read. Transactions of
// several threads reach the disk with one fsync. Thread-safe.
class Store {
 public:
  // Creates what is missing, migrates an older file (after a backup beside it), checks integrity.
  // kUnavailable: another server uses the folder. kFailedPrecondition: a newer program wrote it.
  // kDataLoss: the database is damaged.
  static absl::StatusOr<std::unique_ptr<Store>> Open(StoreOptions options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Runs `body` in one transaction, which is on the disk on return. Nothing is kept on an error,
  // but for that of the disk itself: kInternal, and no later transaction is taken.
  absl::Status Write(const std::function<absl::Status(Connection&)>& body);
  // As Write, but returns before the transaction is on the disk, where no later one is without it.
  // So what follows from it may be written at once, and nobody outside may hear of it: see
  // WhenDurable.
  absl::Status WriteAhead(const std::function<absl::Status(Connection&)>& body);
  // Calls `action` once everything written by now is on the disk: at once, or later on a thread of
  // the store, in the order of the calls. Must not block. Dropped when the disk fails.
  void WhenDurable(std::function<void()> action);
  // Waits until every action passed to WhenDurable so far has been called or dropped; before what
  // they refer to goes away.
  void Flush();

  // Runs `body` on a read-only connection; waits while all are in use. What it saw is on the disk
  // on return.
  absl::Status Read(const std::function<absl::Status(Connection&)>& body) const;
  // As Read, but may see what is not on the disk yet: for those who only write because of it.
  absl::Status ReadAhead(const std::function<absl::Status(Connection&)>& body) const;

  BlobFiles& blobs() const { return *blobs_; }
  const std::string& data_dir_id() const { return data_dir_id_; }  // Drawn once per folder.
  std::int64_t schema_version() const { return schema_version_; }
  const std::filesystem::path& data_dir() const { return options_.data_dir; }

  // A consistent copy of the database and all blobs in the new folder `target`, checked; made under
  // another name beside it, so that `target` is whole or not there. kAlreadyExists: it exists.
  absl::Status Backup(const std::filesystem::path& target);

  // Limits the database file, for tests of a full disk.
  absl::Status LimitPages(std::int64_t pages);

 private:
  Store(StoreOptions options, Fd lock, Connection writer)
      : options_(std::move(options)), lock_(std::move(lock)), writer_(std::move(writer)) {}
  absl::Status Prepare();

  const StoreOptions options_;
  Fd lock_;  // Holds the flock; first in, last out.
  std::unique_ptr<BlobFiles> blobs_;
  std::string data_dir_id_;
  std::int64_t schema_version_ = 0;

  std::mutex write_mutex_;
  Connection writer_;        // Guarded by write_mutex_.
  std::int64_t writes_ = 0;  // Guarded by write_mutex_.
  std::unique_ptr<LogSync> log_;

  mutable std::mutex read_mutex_;
  mutable std::condition_variable reader_free_;
  mutable std::vector<std::unique_ptr<Connection>> readers_;  // Idle ones. Guarded by read_mutex_.
};

// Opens nothing but the database of a data folder for reading, as `fettle backup` does beside a
// running server.
absl::Status BackupDataDir(const std::filesystem::path& data_dir,
                           const std::filesystem::path& target);

}  // namespace fettle
