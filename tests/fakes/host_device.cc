// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/host_device.h"

#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/digest.h"
#include "device/launch_check.h"

namespace fettle {
namespace {

class HostBuffer final : public DeviceBuffer {
 public:
  // Owns `mapping` (of `mapped` bytes) when it is set, else `data`.
  HostBuffer(void* data, std::int64_t size, void* mapping = nullptr, std::size_t mapped = 0)
      : data_(data), size_(size), mapping_(mapping), mapped_(mapped) {}
  ~HostBuffer() override {
    if (mapping_ != nullptr) {
      munmap(mapping_, mapped_);
    } else {
      std::free(data_);
    }
  }
  std::uint64_t address() const override { return reinterpret_cast<std::uint64_t>(data_); }
  std::int64_t size_bytes() const override { return size_; }

 private:
  void* data_;
  std::int64_t size_;
  void* mapping_;
  std::size_t mapped_;
};

std::uint8_t* At(const DeviceBuffer& buffer, std::int64_t offset) {
  return reinterpret_cast<std::uint8_t*>(buffer.address()) + offset;
}

class HostModule final : public DeviceModule {
 public:
  HostModule(std::span<std::uint8_t> state, int& restored) : state_(state), restored_(restored) {}
  absl::StatusOr<std::int64_t> SaveState() override {
    saved_.assign(state_.begin(), state_.end());
    return static_cast<std::int64_t>(saved_.size());
  }
  absl::Status RestoreState() override {
    ++restored_;
    std::copy(saved_.begin(), saved_.end(), state_.begin());
    return absl::OkStatus();
  }
  absl::StatusOr<FunctionInfo> Function(std::string_view symbol) override {
    FunctionInfo info;
    info.symbol = std::string(symbol);
    info.max_threads = 1024;
    return info;
  }
  std::vector<std::string> WritableGlobals() override { return {}; }

 private:
  std::span<std::uint8_t> state_;
  int& restored_;
  std::vector<std::uint8_t> saved_;
};

class HostEvent final : public DeviceEvent {
 public:
  std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now();
};

}  // namespace

HostDevice::HostDevice(bool as_gpu) : takes_digests_(as_gpu) {
  if (as_gpu) info_.target.vendor = Vendor::kNvidia;
  info_.id = "cpu";
  info_.model = "host functions";
  info_.target.name = "cpu";
  info_.target.lds = 1 << 20;
  info_.memory_bytes = std::int64_t{1} << 32;
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> HostDevice::Allocate(std::int64_t size_bytes) {
  const std::int64_t rounded = (std::max<std::int64_t>(size_bytes, 1) + 255) / 256 * 256;
  void* data = std::aligned_alloc(256, static_cast<std::size_t>(rounded));
  if (data == nullptr) return absl::ResourceExhaustedError("out of memory");
  return std::make_unique<HostBuffer>(data, size_bytes);
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> HostDevice::AllocatePageEnd(std::int64_t size_bytes,
                                                                          std::int64_t) {
  const std::int64_t page = sysconf(_SC_PAGESIZE);
  const std::int64_t payload = (size_bytes + page - 1) / page * page;
  const auto mapped = static_cast<std::size_t>(payload + page);
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return absl::ResourceExhaustedError("out of memory");
  auto* start = static_cast<std::uint8_t*>(mapping);
  mprotect(start + payload, static_cast<std::size_t>(page), PROT_NONE);
  return std::make_unique<HostBuffer>(start + payload - size_bytes, size_bytes, mapping, mapped);
}

absl::Status HostDevice::CopyIn(DeviceBuffer& to, std::int64_t offset,
                                std::span<const std::uint8_t> from) {
  const auto size = static_cast<std::int64_t>(from.size());
  if (auto status = CheckRange(to, offset, size, "copy in"); !status.ok()) return status;
  if (!from.empty()) std::memcpy(At(to, offset), from.data(), from.size());
  return absl::OkStatus();
}

absl::Status HostDevice::CopyOut(const DeviceBuffer& from, std::int64_t offset,
                                 std::span<std::uint8_t> to) {
  const auto size = static_cast<std::int64_t>(to.size());
  if (auto status = CheckRange(from, offset, size, "copy out"); !status.ok()) return status;
  if (!to.empty()) std::memcpy(to.data(), At(from, offset), to.size());
  return absl::OkStatus();
}

absl::Status HostDevice::CopyDevice(DeviceBuffer& to, std::int64_t to_offset,
                                    const DeviceBuffer& from, std::int64_t from_offset,
                                    std::int64_t size_bytes) {
  if (auto status = CheckRange(to, to_offset, size_bytes, "copy"); !status.ok()) return status;
  if (auto status = CheckRange(from, from_offset, size_bytes, "copy"); !status.ok()) return status;
  std::memmove(At(to, to_offset), At(from, from_offset), static_cast<std::size_t>(size_bytes));
  return absl::OkStatus();
}

absl::Status HostDevice::Fill(DeviceBuffer& to, std::int64_t offset, std::int64_t size_bytes,
                              std::uint8_t byte) {
  if (auto status = CheckRange(to, offset, size_bytes, "fill"); !status.ok()) return status;
  std::memset(At(to, offset), byte, static_cast<std::size_t>(size_bytes));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<DeviceDigest>> HostDevice::Digests(std::span<const DeviceRange> ranges,
                                                              std::uint64_t key,
                                                              std::chrono::nanoseconds) {
  if (!takes_digests_) return absl::UnimplementedError("this fake takes no digests");
  ++digests_;
  std::vector<DeviceDigest> digests;
  for (const DeviceRange& range : ranges) {
    if (auto status = CheckRange(*range.buffer, range.offset, range.size_bytes, "digest");
        !status.ok()) {
      return status;
    }
    const std::string hex =
        Sha256Hex(fmt::format("{:x}", key) +
                  std::string(reinterpret_cast<const char*>(At(*range.buffer, range.offset)),
                              static_cast<std::size_t>(range.size_bytes)));
    digests.push_back({std::stoull(hex.substr(0, 16), nullptr, 16),
                       std::stoull(hex.substr(16, 16), nullptr, 16)});
  }
  return digests;
}

absl::StatusOr<std::unique_ptr<DeviceModule>> HostDevice::Load(
    std::string_view, std::span<const std::string> symbols) {
  for (const std::string& symbol : symbols) {
    if (!kernels_.contains(symbol)) {
      return absl::NotFoundError(fmt::format("no kernel '{}' is registered", symbol));
    }
  }
  return std::make_unique<HostModule>(state_, restored_);
}

absl::Status HostDevice::Launch(DeviceModule&, std::string_view symbol, const LaunchConfig& config,
                                std::span<const KernelArgument> arguments) {
  if (auto status = CheckLaunch(config, info_.target, 0); !status.ok()) return status;
  const auto found = kernels_.find(symbol);
  if (found == kernels_.end()) return absl::NotFoundError("no such kernel");
  ++launches_;
  return found->second(config, arguments);
}

absl::Status HostDevice::Synchronize(std::chrono::nanoseconds) { return absl::OkStatus(); }

absl::StatusOr<std::unique_ptr<DeviceEvent>> HostDevice::Record() {
  return std::make_unique<HostEvent>();
}

absl::StatusOr<double> HostDevice::ElapsedNs(const DeviceEvent& from, const DeviceEvent& to) {
  const auto elapsed =
      static_cast<const HostEvent&>(to).time - static_cast<const HostEvent&>(from).time;
  return static_cast<double>(std::chrono::nanoseconds(elapsed).count());
}

}  // namespace fettle
