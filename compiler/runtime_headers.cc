// SPDX-License-Identifier: Apache-2.0
#include "compiler/runtime_headers.h"

#include "compiler/files.h"
#include "compiler/runtime_headers_data.h"  // Generated from compiler/runtime_include.
#include "core/digest.h"
#include "core/status_macros.h"

namespace fettle {

const std::string& RuntimeHeadersDigest() {
  static const std::string digest = [] {
    std::string all;
    for (const EmbeddedFile& file : RuntimeHeaders()) {
      all += fmt::format("{}:{}:", file.name.size(), file.bytes.size());
      all.append(file.name).append(file.bytes);
    }
    return Sha256Hex(all);
  }();
  return digest;
}

absl::StatusOr<std::string> UnpackRuntimeHeaders(const std::string& cache_dir) {
  const std::string folder = fmt::format("{}/{}", cache_dir, RuntimeHeadersDigest().substr(0, 24));
  if (Exists(folder)) return folder;
  FETTLE_ASSIGN_OR_RETURN(const TemporaryFolder temporary, TemporaryFolder::Create(cache_dir));
  const std::string staging = temporary.path() + "/include";
  for (const EmbeddedFile& file : RuntimeHeaders()) {
    FETTLE_RETURN_IF_ERROR(
        WriteFile(fmt::format("{}/{}", staging, std::string(file.name)), file.bytes));
  }
  FETTLE_RETURN_IF_ERROR(PublishFolder(staging, folder));
  return folder;
}

}  // namespace fettle
