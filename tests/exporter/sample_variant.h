// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "core/blob.h"
#include "exporter/bundle.h"

namespace fettle {

// A store in memory whose bytes tests can damage.
class FakeBlobs final : public BlobStore {
 public:
  absl::StatusOr<std::string> Get(std::string_view digest) override;
  absl::StatusOr<std::string> Put(std::string_view bytes) override;
  void Damage(const std::string& digest) { blobs[digest] += "x"; }

  std::map<std::string, std::string> blobs;
};

// The provenance document of a variant with whole evidence: a speed-up of about 1.2 over 20 blocks.
// Its task files and code object are put into `blobs`.
nlohmann::json SampleProvenance(FakeBlobs& blobs, const std::string& id, int block = 128);

// The same with another text in the task file.
nlohmann::json SampleProvenance(FakeBlobs& blobs, const std::string& id, int block,
                                const std::string& task_yaml);
std::string SampleTaskYaml();

// Parsed; fails the test on an error.
VariantProvenance Parsed(const nlohmann::json& document);

// The bundle of two sample variants.
BundleFiles SampleBundle();

}  // namespace fettle
