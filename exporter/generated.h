// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files of a bundle that are generated from its model, by path: nothing in them depends on when or
// where they are made.

#include <map>
#include <string>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "exporter/bundle_model.h"

namespace fettle {

using GeneratedFiles = std::map<std::string, std::string>;

// `text` with each @NAME@ replaced by its value.
std::string Substituted(std::string text, const std::map<std::string, std::string>& values);

// cmake/: a relocatable package with the targets fettle::<op> and fettle::<op>-<digest8>.
GeneratedFiles CmakePackage(const BundleModel& model);
// cmake/fettle_<op>FromSource.cmake: compiles the objects with the consumer's own compilers.
GeneratedFiles CmakeFromSource(const BundleModel& model);

// integrations/torch/: a PyTorch custom operator over the same dispatcher. Empty for operators that
// take arrays of tensors or lists in host memory, which a PyTorch schema here does not express.
GeneratedFiles TorchBinding(const BundleModel& model);

// tests/check_vectors.cpp: runs the test vectors through the dispatcher. `index`: tests/vectors/
// index.json, null where there are none.
GeneratedFiles VectorCheck(const BundleModel& model, const nlohmann::json& index);

// reference/: the task's reference with its interface, and how to call it.
GeneratedFiles ReferenceFiles(const BundleModel& model);

// integrations/aiter_csv/<op>.csv: a row per timed case and variant in the columns of AITER's tuned
// tables; what such a row has no word for is in the column `dims`.
GeneratedFiles TunedCsv(const BundleModel& model);

// provenance/slsa.intoto.json and provenance/lineage.json. `sums`: SHA-256 by path of what the
// statement is about.
GeneratedFiles Attestation(const BundleModel& model,
                           const std::map<std::string, std::string>& sums);

// sbom.spdx.json (SPDX 2.3) over `files`.
std::string Sbom(const BundleModel& model, const std::map<std::string, std::string>& files);

// LICENSE: the text where fettle carries it, else the identifier.
std::string LicenseText(const std::string& license);

}  // namespace fettle
