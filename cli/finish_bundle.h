// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "cli/local.h"
#include "exporter/bundle.h"

namespace fettle {

// What this machine adds to a bundle that the server laid out.
struct FinishOptions {
  std::vector<std::string> also;  // Further targets to compile every variant for.
  std::string version;            // Empty: as it is.
  std::string key_file;           // Signing key; empty: FETTLE_SIGNING_KEY, else the user's own.
  bool no_sign = false;
  bool no_build = false;    // Leave out the baseline's objects.
  bool no_vectors = false;  // Leave out test vectors.
  LocalFlags local;

  void Declare(FlagSet& flags);
};

// Adds the baseline's objects for every target, objects for further targets, test vectors, and the
// signature. What this machine cannot do (no compiler, no fettle-runner) is left out and put into
// `notes`; a target that was asked for by name is an error then.
absl::StatusOr<BundleFiles> FinishBundle(Context& context, const BundleFiles& files,
                                         const FinishOptions& options,
                                         std::vector<std::string>* notes);

// The signing key in `key_file`, else FETTLE_SIGNING_KEY, else ~/.config/fettle/signing_key.pem,
// which is made, with mode 0600, when it is missing. A key that others can read is refused.
absl::StatusOr<std::string> ReadSigningKey(const std::string& key_file,
                                           std::vector<std::string>* notes);

}  // namespace fettle
