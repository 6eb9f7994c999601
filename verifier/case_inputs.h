// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "device/case_images.h"
#include "device/device.h"
#include "verifier/inputs.h"

namespace fettle {

// Inputs of cases in the device's memory, made once and kept while there is room. Not thread-safe;
// must not outlive the device.
class CaseInputCache {
 public:
  explicit CaseInputCache(Device& device);

  struct Entry {
    std::string key;  // What they were made from.
    std::shared_ptr<const CaseImages> images;
    // Digests by key of digest, as CaseDigests::inputs; filled by whoever takes them first.
    mutable std::map<std::uint64_t, std::vector<std::string>> digests;
    // Host bytes and the rows that the operator may change, only where some rows may not be: of a
    // case without such a tensor both are empty.
    std::vector<std::vector<std::uint8_t>> host;
    std::vector<std::optional<std::vector<std::int64_t>>> touched;
  };

  // Errors: those of MakeInputs and of device.h.
  absl::StatusOr<std::shared_ptr<const Entry>> Get(const BoundCase& bound_case,
                                                   const InputSpec& spec,
                                                   const std::map<std::string, std::string>& files);
  void Clear();

 private:
  // Makes a large drawn input on the device instead of here; false: it cannot.
  absl::StatusOr<bool> Draw(const BoundCase& bound_case, std::size_t index, const InputSpec& spec,
                            DeviceBuffer& image);

  Device& device_;
  bool draws_ = true;  // False once a device drew other bytes than this machine.
  std::int64_t most_bytes_;
  std::int64_t bytes_ = 0;
  std::vector<std::uint8_t> staging_;
  std::list<std::shared_ptr<const Entry>> entries_;  // The latest first.
};

}  // namespace fettle
