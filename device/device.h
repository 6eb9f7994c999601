// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "core/dtype.h"
#include "core/target.h"

namespace fettle {

// Errors of every device call, by code; the message starts with the vendor's code and name
// ("CUDA_ERROR_ILLEGAL_ADDRESS (700): ..."):
//   kInvalidArgument    the launch was refused (resources, parameters); not sticky  -> LAUNCH_ERROR
//   kAborted            a device fault; the device object is unusable from now on   -> CRASHED
//   kDeadlineExceeded   a launch did not finish in time; unusable from now on       -> TIMEOUT
//   kResourceExhausted  out of device memory; not sticky
//   kUnavailable        no driver, no device, or it fell off the bus

struct DeviceInfo {
  std::string id;         // "cpu", "cuda:0", "hip:0"
  std::string model;      // "NVIDIA H200", CPU model name
  std::string driver;     // Driver or runtime version
  std::string uuid;       // With MIG or partition identity where there is one.
  std::string partition;  // "", "MIG 3g.71gb", "CPX/NPS4", ...
  Target target;          // The target it runs, with limits as the device reports them.
  std::int64_t memory_bytes = 0;
  // An emulator stands in for it: correctness counts as that, times never count.
  bool emulated = false;
};

// State read around timing blocks; 0 where unknown.
struct DeviceState {
  double clock_mhz = 0, memory_clock_mhz = 0, power_w = 0, temperature_c = 0;
  bool throttled = false;
  std::string throttle_reason;
};

// One allocation. `address` is a device address (on cpu a pointer). Guard bands and their patterns
// are the caller's business (device/guarded_buffer.h); the device only promises 256-byte alignment.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual std::uint64_t address() const = 0;
  virtual std::int64_t size_bytes() const = 0;
};

// What a buffer is used for; lets the checking runtime name it and know what may be done to it.
struct BufferNote {
  std::string name;         // "y", as the task calls it.
  bool initialised = true;  // False: its bytes are poison; a kernel must write before it reads.
  bool read_only = false;   // A kernel's write to it is a finding.
};

// A function of a loaded module.
struct FunctionInfo {
  std::string symbol;
  std::int64_t static_shared_bytes = 0;
  std::int64_t registers = 0;
  std::int64_t local_bytes = 0;
  std::int64_t max_threads = 0;               // Per block, for this function.
  std::vector<std::int64_t> parameter_bytes;  // Where the object describes them; else empty.
};

// A loaded code object. Destroyed before its device.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  // kNotFound: no such symbol.
  virtual absl::StatusOr<FunctionInfo> Function(std::string_view symbol) = 0;
  // Writable module-level variables (C50-C53): names; empty where unknown.
  virtual std::vector<std::string> WritableGlobals() = 0;
  // Those variables keep what one launch wrote for the next. SaveState remembers what they hold now
  // and returns how many bytes that are; RestoreState brings it back, in stream order. The default
  // has none. kInvalidArgument names a variable that the device does not find.
  virtual absl::StatusOr<std::int64_t> SaveState() { return 0; }
  virtual absl::Status RestoreState() { return absl::OkStatus(); }
};

struct LaunchConfig {
  std::array<std::int64_t, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{0, 0, 0};
  std::int64_t shared_bytes = 0;
  bool cooperative = false;
};

// One argument as the bytes the kernel's parameter takes (a pointer: 8 bytes of address).
using KernelArgument = std::vector<std::uint8_t>;

// A point in the device's stream.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

// A recorded sequence of launches that replays as one; nullptr where unsupported.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

// A check-mode finding (cpu): what happened, where, in which block and thread.
struct CheckFinding {
  std::string kind;      // "oob.write", "race.block", "uninit.read", "barrier.divergent", ...
  bool is_error = true;  // Else a warning.
  std::string message;
  std::string file;
  int line = 0;
};

using DeviceDigest = std::array<std::uint64_t, 2>;

// Bytes of one buffer.
struct DeviceRange {
  const DeviceBuffer* buffer = nullptr;
  std::int64_t offset = 0, size_bytes = 0;
};

// Values that follow from a seed and their place: entry i is made of number i of the stream `seed`
// (core/draw.h).
struct DrawnFill {
  enum class Kind {
    kConstant,  // a
    kNormal,    // a + b times a standard normal
    kUniform,   // a + b times a number in (0, 1)
    kBelow,     // low + a number in [0, span); for integers, the others for floats.
  };
  Kind kind = Kind::kConstant;
  DType dtype = DType::kF32;
  double a = 0, b = 0;
  std::int64_t low = 0;
  std::uint64_t span = 1;
  std::uint64_t seed = 0;
};

// One physical unit, used from one thread. Work is in order on one stream. The runner owns it; the
// server never does.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual DeviceState State() = 0;

  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(std::int64_t size_bytes) = 0;
  // An allocation whose last byte is followed by memory that faults when touched; its address is a
  // multiple of `align` and of no other promise. `size_bytes` must be a multiple of `align` (a
  // power of two). kUnimplemented where the device cannot do that (the default).
  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> AllocatePageEnd(
      [[maybe_unused]] std::int64_t size_bytes, [[maybe_unused]] std::int64_t align) {
    return absl::UnimplementedError("this device cannot place a buffer before an unmapped page");
  }
  // Check mode (cpu): kernels may touch only these bytes of the buffer; the rest is guard. Others
  // ignore it (the default).
  virtual void SetPayload([[maybe_unused]] const DeviceBuffer& buffer,
                          [[maybe_unused]] std::int64_t offset,
                          [[maybe_unused]] std::int64_t size_bytes) {}
  // Describes the buffer's payload to the checking runtime (cpu check mode). Call after its
  // contents were written, since writing marks bytes as initialised. Others ignore it (the
  // default).
  virtual void Annotate([[maybe_unused]] const DeviceBuffer& buffer,
                        [[maybe_unused]] const BufferNote& note) {}
  virtual absl::Status CopyIn(DeviceBuffer& to, std::int64_t offset,
                              std::span<const std::uint8_t> from) = 0;
  virtual absl::Status CopyOut(const DeviceBuffer& from, std::int64_t offset,
                               std::span<std::uint8_t> to) = 0;
  virtual absl::Status CopyDevice(DeviceBuffer& to, std::int64_t to_offset,
                                  const DeviceBuffer& from, std::int64_t from_offset,
                                  std::int64_t size_bytes) = 0;
  // Fills with a repeated byte; in stream order.
  virtual absl::Status Fill(DeviceBuffer& to, std::int64_t offset, std::int64_t size_bytes,
                            std::uint8_t byte) = 0;

  // A keyed digest of each range, taken on the device after everything enqueued so far: equal bytes
  // give equal digests, others give others but for about one in 2^64, whoever chose them without
  // the key. Waits at most `limit`. kUnimplemented where the device has no such kernel (the
  // default): read the bytes instead.
  virtual absl::StatusOr<std::vector<DeviceDigest>> Digests(
      [[maybe_unused]] std::span<const DeviceRange> ranges, [[maybe_unused]] std::uint64_t key,
      [[maybe_unused]] std::chrono::nanoseconds limit) {
    return absl::UnimplementedError("this device does not take digests");
  }

  // Writes the first `count` entries of a fill at the buffer's start, on the device; in stream
  // order. The bytes are those of verifier/inputs.h. kUnimplemented where the device cannot (the
  // default), or not that dtype: copy the values instead.
  virtual absl::Status Draw([[maybe_unused]] DeviceBuffer& to, [[maybe_unused]] std::int64_t count,
                            [[maybe_unused]] const DrawnFill& fill) {
    return absl::UnimplementedError("this device does not draw values");
  }

  virtual absl::StatusOr<std::unique_ptr<DeviceModule>> Load(
      std::string_view code_object, std::span<const std::string> symbols) = 0;
  // Enqueues (cpu: runs). Validates limits first, so that no launch fails silently.
  virtual absl::Status Launch(DeviceModule& module, std::string_view symbol,
                              const LaunchConfig& config,
                              std::span<const KernelArgument> arguments) = 0;
  // Waits for the stream; kDeadlineExceeded after `limit`.
  virtual absl::Status Synchronize(std::chrono::nanoseconds limit) = 0;

  virtual absl::StatusOr<std::unique_ptr<DeviceEvent>> Record() = 0;
  // Nanoseconds between two recorded events, both reached.
  virtual absl::StatusOr<double> ElapsedNs(const DeviceEvent& from, const DeviceEvent& to) = 0;

  // Starts capturing launches, fills and copies, none of which runs before a Replay. kUnimplemented
  // where the device cannot record all of them; EndCapture may return nullptr then.
  virtual absl::Status BeginCapture() = 0;
  virtual absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture() = 0;
  virtual absl::Status Replay(DeviceGraph& graph) = 0;

  // Keeps the device busy for about `duration` (the calibration kernel); in stream order.
  virtual absl::Status Spin(std::chrono::nanoseconds duration) = 0;
  // Gives back cache lines set to persist; no-op where there is no such thing.
  virtual absl::Status ResetPersistingCache() = 0;

  // cpu: order in which blocks and threads run from now on: "forward", "reverse", "random" (by
  // `seed`). Others ignore it (the default).
  virtual void SetSchedule([[maybe_unused]] std::string_view schedule,
                           [[maybe_unused]] std::uint64_t seed) {}

  // Check mode (cpu): findings since the last call. Others return none.
  virtual std::vector<CheckFinding> TakeFindings() = 0;
};

}  // namespace fettle
