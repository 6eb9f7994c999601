// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <absl/status/status.h>

namespace fettle {

// kFailedPrecondition names the file that holds what looks like a secret (a private key, an access
// token), or a path of a person's home folder. What leaves fettle is scanned for them.
absl::Status ScanForSecrets(const std::map<std::string, std::string>& files);

}  // namespace fettle
