// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/gpu_compilers.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "compiler/files.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

std::string OrEnvironment(const std::string& value, const char* name) {
  if (!value.empty()) return value;
  const char* set = std::getenv(name);
  return set == nullptr ? "" : set;
}

// Only `library`, whose folder the sandboxed server then sees; nothing changes when it is empty.
void UseLibrary(const std::string& library, RtcOptions& options) {
  if (library.empty()) return;
  options.library_files = {library};
  if (const std::size_t slash = library.rfind('/'); slash != std::string::npos && slash > 0) {
    options.readable.push_back(library.substr(0, slash));
  }
}

absl::StatusOr<std::unique_ptr<KernelCompiler>> MakeNvrtc(const GpuCompilersOptions& options) {
  RtcOptions rtc{.nvrtc = true,
                 .program = options.program,
                 .wall_seconds = options.wall_seconds,
                 .cpu_seconds = options.cpu_seconds,
                 .isolate = options.isolate};
  // CUDA's usual place may be a link to anywhere.
  std::error_code error;
  const std::string cuda = std::filesystem::canonical("/usr/local/cuda", error).string();
  if (!error && !cuda.starts_with("/usr/")) rtc.readable.push_back(cuda);
  UseLibrary(OrEnvironment(options.nvrtc_library, "FETTLE_NVRTC_LIBRARY"), rtc);
  return MakeRtcCompiler(std::move(rtc));
}

absl::StatusOr<std::unique_ptr<KernelCompiler>> MakeHiprtc(const GpuCompilersOptions& options) {
  RtcOptions rtc{.nvrtc = false,
                 .program = options.program,
                 .wall_seconds = options.wall_seconds,
                 .cpu_seconds = options.cpu_seconds,
                 .isolate = options.isolate};
  const std::string prefix = OrEnvironment(options.hiprtc_prefix, "FETTLE_HIPRTC_PREFIX");
  if (!prefix.empty()) {
    const std::string loader = prefix + "/usr/lib64/ld-linux-x86-64.so.2";
    if (!Exists(loader)) {
      return absl::UnavailableError(fmt::format(
          "hiprtc in {}: no loader there; fill it with deploy/scripts/get_hiprtc.sh", prefix));
    }
    rtc.argv_prefix = {loader, "--library-path", prefix + "/usr/lib/x86_64-linux-gnu"};
    rtc.readable = {prefix};
  } else if (Exists("/opt/rocm")) {
    rtc.readable = {"/opt"};
  }
  UseLibrary(OrEnvironment(options.hiprtc_library, "FETTLE_HIPRTC_LIBRARY"), rtc);
  return MakeRtcCompiler(std::move(rtc));
}

absl::StatusOr<std::unique_ptr<KernelCompiler>> MakeClang(const GpuCompilersOptions& options) {
  ClangOptions clang{.isolate = options.isolate};
  clang.limits.wall = std::chrono::seconds(options.wall_seconds);
  clang.limits.cpu_seconds = options.cpu_seconds;
  return MakeClangCompiler(std::move(clang));
}

struct Maker {
  const char* name;
  Vendor vendor;
  absl::StatusOr<std::unique_ptr<KernelCompiler>> (*make)(const GpuCompilersOptions&);
};
constexpr Maker kMakers[] = {{"nvrtc", Vendor::kNvidia, MakeNvrtc},
                             {"hiprtc", Vendor::kAmd, MakeHiprtc},
                             {"clang", Vendor::kAmd, MakeClang}};

}  // namespace

std::vector<GpuCompilerSearch> FindGpuCompilers(const GpuCompilersOptions& options) {
  std::vector<GpuCompilerSearch> found;
  for (const Maker& maker : kMakers) {
    auto compiler = maker.make(options);
    GpuCompilerSearch search{.name = maker.name, .compiler = nullptr, .status = compiler.status()};
    if (compiler.ok()) search.compiler = *std::move(compiler);
    found.push_back(std::move(search));
  }
  return found;
}

absl::StatusOr<std::unique_ptr<KernelCompiler>> FindGpuCompilerFor(
    const Target& target, const GpuCompilersOptions& options) {
  if (target.vendor == Vendor::kCpu) {
    return absl::InvalidArgumentError(
        fmt::format("find a GPU compiler for {}: not a GPU target", target.name));
  }
  std::string reasons;
  for (const Maker& maker : kMakers) {
    if (maker.vendor != target.vendor) continue;
    auto compiler = maker.make(options);
    if (compiler.ok() && (*compiler)->Supports(target)) return compiler;
    reasons += fmt::format(
        "{}{}: {}", reasons.empty() ? "" : "; ", maker.name,
        compiler.ok() ? "does not know this target" : std::string(compiler.status().message()));
  }
  return absl::UnavailableError(fmt::format("no compiler for {}: {}", target.name, reasons));
}

}  // namespace fettle
