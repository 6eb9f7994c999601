// SPDX-License-Identifier: Apache-2.0
#include "profiler/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "core/digest.h"
#include "core/json_reader.h"
#include "core/status_macros.h"
#include "device/gpu_kernels.h"

namespace fettle {
namespace {

constexpr std::int64_t kCopyBytes = std::int64_t{128} << 20;  // Each of source and destination.
constexpr std::int64_t kCachedBytes = std::int64_t{256}
                                      << 10;  // Per thread; fits a second-level cache.
constexpr int kPasses = 7;
constexpr std::chrono::seconds kLimit{20};
constexpr std::int64_t kDeviceCopyBytes = std::int64_t{1} << 30;
constexpr double kProbeNs = 2e6;  // Long against a launch, short against what heats a device.

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Eight sums so that the additions do not bound it.
std::uint64_t ReadAll(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

// One pass of every thread over its own share, `repeats` times; returns bytes per second.
template <typename Body>
double Pass(unsigned threads, double bytes, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> workers;
  for (unsigned t = 1; t < threads; ++t) workers.emplace_back([&body, t] { body(t); });
  body(0);
  for (std::thread& worker : workers) worker.join();
  return bytes / SecondsSince(start);
}

struct Mapping {
  explicit Mapping(std::size_t size)
      : bytes(size),
        data(static_cast<char*>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (data == MAP_FAILED) data = nullptr;
  }
  ~Mapping() {
    if (data != nullptr) munmap(data, bytes);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::size_t bytes;
  char* data;
};

// Best of reading and copying `share` bytes per thread, `repeats` times within a pass.
double BestRate(unsigned threads, std::size_t share, int repeats, char* from, char* to) {
  std::vector<std::uint64_t> sums(threads * 8);
  const double bytes = static_cast<double>(share) * threads * repeats;
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    best = std::max(best, 2 * Pass(threads, bytes, [&](unsigned t) {
                            for (int r = 0; r < repeats; ++r) {
                              std::memcpy(to + t * share, from + t * share, share);
                            }
                          }));
    best = std::max(best, Pass(threads, bytes, [&](unsigned t) {
                      for (int r = 0; r < repeats; ++r) {
                        sums[t * 8] += ReadAll(
                            reinterpret_cast<const std::uint64_t*>(from + t * share), share / 8);
                      }
                    }));
  }
  return best;
}

absl::StatusOr<Ceilings> MeasureCpu() {
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  const Mapping from(kCopyBytes), to(kCopyBytes);
  if (from.data == nullptr || to.data == nullptr) {
    return absl::ResourceExhaustedError(
        fmt::format("measure ceilings: no {} bytes of memory", 2 * kCopyBytes));
  }
  std::memset(from.data, 1, from.bytes);
  std::memset(to.data, 2, to.bytes);
  Ceilings ceilings;
  const std::size_t share = kCopyBytes / threads / 4096 * 4096;
  ceilings.bytes_per_s = BestRate(threads, share, 1, from.data, to.data);
  ceilings.cached_bytes_per_s = BestRate(threads, kCachedBytes, 200, from.data, to.data);
  return ceilings;
}

// Device time of one launch of the probe.
absl::StatusOr<double> ProbeNs(Device& device, DeviceModule& module, const MatrixProbe& probe,
                               std::uint64_t repeats) {
  LaunchConfig config;
  config.grid[0] = std::max<std::int64_t>(1, device.info().target.cus) * probe.blocks_per_cu;
  config.block[0] = probe.block_threads;
  const std::uint64_t out = 0;
  std::vector<KernelArgument> arguments(2, KernelArgument(sizeof repeats));
  std::memcpy(arguments[0].data(), &repeats, sizeof repeats);
  std::memcpy(arguments[1].data(), &out, sizeof out);
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> start, device.Record());
  FETTLE_RETURN_IF_ERROR(device.Launch(module, probe.symbol, config, arguments));
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> end, device.Record());
  FETTLE_RETURN_IF_ERROR(device.Synchronize(kLimit));
  return device.ElapsedNs(*start, *end);
}

absl::StatusOr<double> MatrixRate(Device& device, int bits) {
  FETTLE_ASSIGN_OR_RETURN(const MatrixProbe probe, MatrixProbeFor(device.info().target, bits));
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module,
                          device.Load(probe.image, std::vector<std::string>{probe.symbol}));
  constexpr std::uint64_t kFirst = 64;
  FETTLE_ASSIGN_OR_RETURN(double ns, ProbeNs(device, *module, probe, kFirst));
  FETTLE_ASSIGN_OR_RETURN(ns, ProbeNs(device, *module, probe, kFirst));  // Warm.
  if (ns <= 0) return absl::InternalError("measure the matrix rate: the clock stands still");
  const auto repeats =
      static_cast<std::uint64_t>(std::clamp(kFirst * kProbeNs / ns, double{kFirst}, 1e7));
  double best_ns = std::numeric_limits<double>::infinity();
  for (int pass = 0; pass < kPasses; ++pass) {
    FETTLE_ASSIGN_OR_RETURN(ns, ProbeNs(device, *module, probe, repeats));
    if (ns > 0) best_ns = std::min(best_ns, ns);
  }
  const auto blocks = std::max<std::int64_t>(1, device.info().target.cus) * probe.blocks_per_cu;
  return probe.flops_per_block_repeat * static_cast<double>(repeats) * static_cast<double>(blocks) /
         (best_ns * 1e-9);
}

absl::StatusOr<Ceilings> MeasureDevice(Device& device) {
  std::int64_t size = kDeviceCopyBytes;
  if (device.info().memory_bytes > 0) size = std::min(size, device.info().memory_bytes / 8);
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceBuffer> from, device.Allocate(size));
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceBuffer> to, device.Allocate(size));
  FETTLE_RETURN_IF_ERROR(device.Fill(*from, 0, size, 1));
  Ceilings ceilings;
  for (int pass = 0; pass < kPasses; ++pass) {
    FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> start, device.Record());
    FETTLE_RETURN_IF_ERROR(device.CopyDevice(*to, 0, *from, 0, size));
    FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceEvent> end, device.Record());
    FETTLE_RETURN_IF_ERROR(device.Synchronize(kLimit));
    FETTLE_ASSIGN_OR_RETURN(const double ns, device.ElapsedNs(*start, *end));
    if (ns > 0) {
      ceilings.bytes_per_s =
          std::max(ceilings.bytes_per_s, 2 * static_cast<double>(size) / (ns * 1e-9));
    }
  }
  // Unknown is a value: what has no probe, or cannot run it, has no such ceiling.
  ceilings.flops_per_s = MatrixRate(device, 16).value_or(0);
  ceilings.flops8_per_s = MatrixRate(device, 8).value_or(0);
  return ceilings;
}

}  // namespace

absl::StatusOr<Ceilings> MeasureCeilings(Device& device) {
  return device.info().target.vendor == Vendor::kCpu ? MeasureCpu() : MeasureDevice(device);
}

nlohmann::json ToJson(const Ceilings& ceilings) {
  return {{"bytes_per_s", ceilings.bytes_per_s},
          {"cached_bytes_per_s", ceilings.cached_bytes_per_s},
          {"flops_per_s", ceilings.flops_per_s},
          {"flops8_per_s", ceilings.flops8_per_s}};
}

absl::StatusOr<Ceilings> CeilingsFromJson(const nlohmann::json& json) {
  Ceilings ceilings;
  JsonReader reader(json, "ceilings");
  reader.Get("bytes_per_s", ceilings.bytes_per_s);
  reader.Get("cached_bytes_per_s", ceilings.cached_bytes_per_s);
  reader.Get("flops_per_s", ceilings.flops_per_s);
  reader.Get("flops8_per_s", ceilings.flops8_per_s);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return ceilings;
}

std::filesystem::path CeilingsFile(const std::filesystem::path& folder, const DeviceInfo& device) {
  const std::string key = fmt::format("{}\n{}\n{}\n{}\n{}", device.id, device.model, device.uuid,
                                      device.partition, device.driver);
  return folder / fmt::format("ceilings-{}.json", Sha256Hex(key).substr(0, 16));
}

std::optional<Ceilings> KeptCeilings(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::stringstream text;
  text << in.rdbuf();
  const auto document = nlohmann::json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return std::nullopt;
  absl::StatusOr<Ceilings> kept = CeilingsFromJson(document.value("ceilings", nlohmann::json()));
  if (!kept.ok()) return std::nullopt;
  return *kept;
}

absl::StatusOr<Ceilings> StoredCeilings(const std::filesystem::path& folder,
                                        const DeviceInfo& device,
                                        const std::function<absl::StatusOr<Ceilings>()>& measure) {
  const std::filesystem::path path = CeilingsFile(folder, device);
  if (const std::optional<Ceilings> kept = KeptCeilings(path)) return *kept;
  FETTLE_ASSIGN_OR_RETURN(const Ceilings ceilings, measure());
  StoreCeilings(folder, device, ceilings);
  return ceilings;
}

Ceilings Highest(const Ceilings& one, const Ceilings& other) {
  return {.bytes_per_s = std::max(one.bytes_per_s, other.bytes_per_s),
          .cached_bytes_per_s = std::max(one.cached_bytes_per_s, other.cached_bytes_per_s),
          .flops_per_s = std::max(one.flops_per_s, other.flops_per_s),
          .flops8_per_s = std::max(one.flops8_per_s, other.flops8_per_s)};
}

void StoreCeilings(const std::filesystem::path& folder, const DeviceInfo& device,
                   const Ceilings& ceilings) {
  const std::filesystem::path path = CeilingsFile(folder, device);
  // Written whole or not at all.
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::filesystem::path fresh = path.string() + fmt::format(".{}", getpid());
  if (std::ofstream out(fresh); out) {
    const nlohmann::json document = {{"ceilings", ToJson(ceilings)},  {"device", device.id},
                                     {"model", device.model},         {"uuid", device.uuid},
                                     {"partition", device.partition}, {"driver", device.driver}};
    out << document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    out.close();
    std::filesystem::rename(fresh, path, error);
  }
}

}  // namespace fettle
