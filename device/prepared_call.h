// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "device/case_buffers.h"
#include "device/device.h"

namespace fettle {

// One call of the operator, bound to buffers: every address filled in, ready to enqueue again and
// again. Device, module and buffers must outlive it; make a new one when the buffers change.
class PreparedCall {
 public:
  // `symbols` maps a step's entry to a symbol of `module`.
  //
  // Errors:
  //   kInvalidArgument  an entry without a symbol, an offset outside its buffer, a step whose bytes
  //                     do not fit its buffer
  //   kUnimplemented    a tensor map on a device without them
  static absl::StatusOr<PreparedCall> Create(Device& device, DeviceModule& module,
                                             const std::map<std::string, std::string>& symbols,
                                             const BoundPlan& plan, CaseBuffers& buffers);

  // Enqueues the workspace fills of `init: zero` and then every step. Does not wait.
  // Errors are those of device.h; the message names the step.
  absl::Status Enqueue();

  std::int64_t kernel_count() const;

 private:
  struct Range {  // Bytes of a device buffer.
    DeviceBuffer* buffer = nullptr;
    std::int64_t offset = 0;
  };
  struct Step {
    BoundStep::Kind kind = BoundStep::Kind::kKernel;
    std::string symbol, label;
    LaunchConfig config;
    std::vector<KernelArgument> arguments;
    Range target, source;
    std::int64_t byte_count = 0;
    std::uint8_t fill_byte = 0;
  };
  static absl::StatusOr<KernelArgument> Bind(const BoundArg& arg, const CaseBuffers& buffers);
  static absl::StatusOr<Range> BindRange(const BoundArg& arg, std::int64_t byte_count,
                                         CaseBuffers& buffers);

  Device* device_ = nullptr;
  DeviceModule* module_ = nullptr;
  std::vector<Step> steps_;
};

}  // namespace fettle
