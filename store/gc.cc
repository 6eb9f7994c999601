// SPDX-License-Identifier: Apache-2.0
#include "store/gc.h"

#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "core/status_macros.h"
#include "store/compress.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigestSize = 64;

// Every run of exactly 64 hex digits in a document.
void AddDigests(const std::string& document, std::set<std::string>& digests) {
  std::size_t run = 0;
  for (std::size_t i = 0; i <= document.size(); ++i) {
    const char c = i < document.size() ? document[i] : '"';
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) {
      ++run;
      continue;
    }
    if (run == kDigestSize) digests.insert(document.substr(i - run, run));
    run = 0;
  }
}

absl::Status AddColumn(Connection& db, const char* sql, std::set<std::string>& digests) {
  FETTLE_ASSIGN_OR_RETURN(Statement rows, db.Prepare(sql));
  while (true) {
    FETTLE_ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more) return absl::OkStatus();
    digests.insert(rows.Text(0));
  }
}

absl::StatusOr<std::set<std::string>> NeededDigests(const Store& store) {
  std::set<std::string> needed;
  const absl::Status read = store.Read([&](Connection& db) -> absl::Status {
    FETTLE_RETURN_IF_ERROR(AddColumn(db, "SELECT blob FROM tasks", needed));
    FETTLE_RETURN_IF_ERROR(AddColumn(db, "SELECT blob FROM transcripts", needed));
    FETTLE_RETURN_IF_ERROR(
        AddColumn(db,
                  "SELECT b.code_object FROM builds b JOIN evaluations e ON e.unit_id = b.unit_id "
                  "JOIN jobs j ON j.id = e.job_id WHERE j.state IN ('queued', 'running')",
                  needed));
    FETTLE_ASSIGN_OR_RETURN(Statement rows, db.Prepare("SELECT provenance_zst FROM variants"));
    while (true) {
      FETTLE_ASSIGN_OR_RETURN(const bool more, rows.Step());
      if (!more) return absl::OkStatus();
      FETTLE_ASSIGN_OR_RETURN(const std::string document,
                              ZstdDecompress(rows.Text(0), kMaxDocumentBytes));
      AddDigests(document, needed);
    }
  });
  FETTLE_RETURN_IF_ERROR(read);
  return needed;
}

}  // namespace

absl::StatusOr<GcReport> CollectGarbage(Store& store, const GcOptions& options) {
  FETTLE_ASSIGN_OR_RETURN(const std::set<std::string> needed, NeededDigests(store));
  GcReport report;
  std::error_code error;
  const auto oldest = fs::file_time_type::clock::now() - options.min_age;
  std::vector<fs::path> unneeded;
  fs::recursive_directory_iterator entries(store.data_dir() / "blobs", error);
  for (const fs::recursive_directory_iterator end; !error && entries != end;
       entries.increment(error)) {
    if (!entries->is_regular_file(error)) continue;
    const std::string name = entries->path().filename().string();
    const std::string digest = name.substr(0, kDigestSize);
    const bool young = entries->last_write_time(error) > oldest;
    // What has another name, as a temporary file, is not ours to judge.
    if (young || needed.contains(digest) || !IsDigest(digest)) {
      ++report.kept;
      continue;
    }
    ++report.removed;
    report.removed_bytes += static_cast<std::int64_t>(entries->file_size(error));
    unneeded.push_back(entries->path());
  }
  for (const fs::path& path : unneeded) {
    if (!options.dry_run && !error) fs::remove(path, error);
  }
  if (error) return ErrnoStatus(error.value(), "collect garbage in " + store.data_dir().string());
  return report;
}

}  // namespace fettle
