// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <absl/status/statusor.h>

namespace fettle {

// Files by path as a .tar.gz, all under the folder `top`; the same files give the same bytes.
absl::StatusOr<std::string> TarGz(const std::map<std::string, std::string>& files,
                                  const std::string& top);

}  // namespace fettle
