// SPDX-License-Identifier: Apache-2.0
#include "server/http/archive.h"

#include <memory>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

namespace fettle {
namespace {

constexpr int kFileMode = 0644;

struct FreeArchive {
  void operator()(archive* one) const { archive_write_free(one); }
};
struct FreeEntry {
  void operator()(archive_entry* one) const { archive_entry_free(one); }
};

la_ssize_t Append(archive*, void* out, const void* bytes, std::size_t size) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

}  // namespace

absl::StatusOr<std::string> TarGz(const std::map<std::string, std::string>& files,
                                  const std::string& top) {
  std::string out;
  const std::unique_ptr<archive, FreeArchive> tar(archive_write_new());
  const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
  const auto failed = [&] {
    return absl::InternalError(fmt::format("pack {}: {}", top, archive_error_string(tar.get())));
  };
  archive_write_set_format_pax_restricted(tar.get());
  archive_write_add_filter_gzip(tar.get());
  archive_write_set_filter_option(tar.get(), "gzip", "timestamp", nullptr);
  archive_write_set_bytes_in_last_block(tar.get(), 1);
  if (archive_write_open(tar.get(), &out, nullptr, Append, nullptr) != ARCHIVE_OK) return failed();
  for (const auto& [path, bytes] : files) {
    archive_entry_clear(entry.get());
    archive_entry_set_pathname(entry.get(), fmt::format("{}/{}", top, path).c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), kFileMode);
    archive_entry_set_mtime(entry.get(), 0, 0);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes.size()));
    if (archive_write_header(tar.get(), entry.get()) != ARCHIVE_OK) return failed();
    if (archive_write_data(tar.get(), bytes.data(), bytes.size()) < 0) return failed();
  }
  if (archive_write_close(tar.get()) != ARCHIVE_OK) return failed();
  return out;
}

}  // namespace fettle
