// SPDX-License-Identifier: Apache-2.0
#include "bench/gzip.h"

#include <cerrno>
#include <cstring>

#include <zlib.h>

namespace fettle {

absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (file == nullptr) {
    return absl::NotFoundError(fmt::format("open {}: {}", path, std::strerror(errno)));
  }
  std::string text;
  std::array<char, 65536> buffer;
  for (;;) {
    const int got = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    if (got < 0) return absl::DataLossError(fmt::format("unpack {}: the file is damaged", path));
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace fettle
