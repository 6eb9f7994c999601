// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder of many operators' bundles, for an operator library:
//   ops/<op>-<version>-<digest8>/   bundles; never changed once there
//   registry/                       what is current: index.json, CHANGELOG.md,
//   fettle_opsConfig.cmake,
//                                   include/fettle_ops_all.hpp, tuned.csv; replaced as a whole
//   .lock                           held by whoever changes the folder

#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "exporter/bundle.h"

namespace fettle {

struct LibraryUpdate {
  enum class Kind { kAdded, kUpdated, kUnchanged, kRemoved };
  Kind kind = Kind::kAdded;
  std::string op, version;
  std::string folder;                            // "ops/layernorm-1.1.0-1a2b3c4d"; empty: removed.
  std::string previous;                          // The folder that it replaces; empty: none.
  std::vector<std::string> variants;             // In force now.
  std::vector<std::string> added;                // Of these, new.
  std::vector<std::string> superseded;           // No longer in force; kept in `previous`.
  std::vector<std::string> declined;             // Arrived, and not better than what is in force.
  std::map<std::string, std::string> withdrawn;  // Taken out by id, with the reason.
};
// "added", "updated", "unchanged", "removed"
std::string_view UpdateKindName(LibraryUpdate::Kind kind);

struct LibraryOptions {
  std::string signing_key;  // PEM; empty: not signed.
  // Variants that must not stay in force, with the reason (a recheck that demoted them).
  std::map<std::string, std::string> withdrawn;
};

// Adds an operator's bundle to the library, or updates the operator: variants of the same task that
// the library has are measured against the new ones by the portfolio, and those that are no longer
// in it are superseded, which the index and the changelog record with their bundle. An older bundle
// stays where it is. Readers see the registry before or after, never between; a crash leaves the
// registry as it was, and the next exporter removes what it left behind. Several exporters at once
// take turns.
//
// kAlreadyExists: the folder is something else. kDataLoss: the operator's current bundle is
// damaged. Else as BuildBundle and WriteBundle.
absl::StatusOr<LibraryUpdate> AddToLibrary(const std::string& library, const BundleFiles& bundle,
                                           const LibraryOptions& options);
inline absl::StatusOr<LibraryUpdate> AddToLibrary(const std::string& library,
                                                  const BundleFiles& bundle,
                                                  const std::string& signing_key) {
  return AddToLibrary(library, bundle, LibraryOptions{.signing_key = signing_key, .withdrawn = {}});
}

// Takes `options.withdrawn` out of an operator without adding anything. Where no variant is left,
// the operator leaves the registry; its bundles stay. Errors as above; kNotFound: no such operator.
absl::StatusOr<LibraryUpdate> WithdrawFromLibrary(const std::string& library, const std::string& op,
                                                  const LibraryOptions& options);

// Ids of the variants in force of an operator; empty where there is no such operator or library.
std::vector<std::string> LibraryVariants(const std::string& library, const std::string& op);

// "1.4.0" after "1.3.2"; "2.0.0" where the operator itself changed.
std::string NextVersion(const std::string& version, bool changed_operator);

}  // namespace fettle
