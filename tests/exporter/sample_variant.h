// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/blob.h"
#include "core/task.h"
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
// Its task files and code object, compiled for this machine, are put into `blobs`.
nlohmann::json SampleProvenance(FakeBlobs& blobs, const std::string& id, int block = 128);

// The same with another text in the task file.
nlohmann::json SampleProvenance(FakeBlobs& blobs, const std::string& id, int block,
                                const std::string& task_yaml);
std::string SampleTaskYaml();

// A variant of any task.
struct SampleSpec {
  std::string id = "v1";
  TaskFiles task;
  std::string target = "cpu";
  TunableValues values;
  std::vector<std::string> requirements;  // `requires` of the kernel.
  std::vector<double> ratios;             // Per timed case; 1.2 where there are fewer.
  // For benchmarks of many variants: all share the object that was compiled first.
  bool share_object = false;
};
nlohmann::json MakeProvenance(FakeBlobs& blobs, const SampleSpec& spec);

// Compiled objects of the task's baseline with its declared values for the cpu, as an export adds.
BundleExtras SampleExtras(const Task& task);

// Parsed; fails the test on an error.
VariantProvenance Parsed(const nlohmann::json& document);

// The bundle of two sample variants, with the baseline's objects, signed.
BundleFiles SampleBundle();
// Its signing key.
const std::string& SampleKey();

// A task with two dtype families' worth of choices, ranges, a mode and an exact shape expression,
// for tests of guards; variants "narrow" and "wide" of it.
TaskFiles GuardTask();
BundleFiles GuardBundle();
// Variant "narrow" of it with pretended objects for further targets.
BundleFiles GuardGpuBundle(const std::vector<std::string>& targets = {"gfx950", "sm_90a",
                                                                      "compute_80", "compute_90"},
                           const TaskFiles& files = GuardTask());

}  // namespace fettle
