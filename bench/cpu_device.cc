// SPDX-License-Identifier: Apache-2.0

// Prints what the cpu target costs on this machine: compile latency, switches between GPU threads,
// launches, checking. Figures only; nothing passes or fails.

#include "device/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>

#include <CLI/CLI.hpp>

#include "compiler/cpu_compiler.h"

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kBarriers[] =
    "extern \"C\" __global__ void k(float* y, int n) {\n"
    "  for (int i = 0; i < n; ++i) __syncthreads();\n"
    "  y[blockIdx.x * blockDim.x + threadIdx.x] = n; }\n";
constexpr char kShuffles[] =
    "extern \"C\" __global__ void k(float* y, int n) {\n"
    "  float v = threadIdx.x;\n"
    "  for (int i = 0; i < n; ++i) v = __shfl_xor_sync(0xffffffffu, v, 1) + 1.f;\n"
    "  y[blockIdx.x * blockDim.x + threadIdx.x] = v; }\n";
constexpr char kSaxpy[] =
    "extern \"C\" __global__ void k(float* y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] = 2.f * y[i] + 1.f; }\n";

// The least of `repeats` runs, in nanoseconds: what the machine can do when it is left alone.
double LeastNs(int repeats, const std::function<void()>& run) {
  double least = 1e300;
  for (int i = 0; i < repeats; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return least;
}

CompileRequest Request(const char* source, CompileMode mode) {
  CompileRequest request;
  request.target = {.name = "cpu"};
  request.mode = mode;
  request.source_name = "bench.cu";
  request.source = source;
  request.entries = {"k"};
  return request;
}

struct Program {
  CpuCompiler& compiler;
  CpuDevice& device;
  int repeats;

  int Fail(const absl::Status& status) const {
    std::fprintf(stderr, "cpu_device: %s\n", std::string(status.message()).c_str());
    return 1;
  }

  // Launch time of `source` in nanoseconds.
  absl::StatusOr<double> Time(const char* source, CompileMode mode, std::int64_t grid,
                              std::int64_t block, int n) {
    const auto compiled = compiler.Compile(Request(source, mode), {});
    if (!compiled.ok()) return compiled.status();
    if (!compiled->accepted) return absl::InternalError(compiled->log);
    auto module = device.Load(compiled->code_object, compiled->symbols);
    if (!module.ok()) return module.status();
    auto buffer = device.Allocate(grid * block * 4);
    if (!buffer.ok()) return buffer.status();
    std::vector<KernelArgument> arguments(2);
    const std::uint64_t address = (*buffer)->address();
    arguments[0].resize(sizeof address);
    std::memcpy(arguments[0].data(), &address, sizeof address);
    arguments[1].resize(sizeof n);
    std::memcpy(arguments[1].data(), &n, sizeof n);
    absl::Status status;
    const double ns = LeastNs(repeats, [&] {
      status.Update(device.Launch(**module, compiled->symbols[0],
                                  {.grid = {grid, 1, 1}, .block = {block, 1, 1}}, arguments));
    });
    if (!status.ok()) return status;
    return ns;
  }

  absl::Status CompileLatency() {
    for (const auto& [name, mode] :
         {std::pair{"fast", CompileMode::kFast}, std::pair{"check", CompileMode::kCheck}}) {
      absl::Status status;
      const double ns = LeastNs(repeats + 1, [&] {
        status.Update(compiler.Compile(Request(kShuffles, mode), {}).status());
      });
      if (!status.ok()) return status;
      std::printf("compile, %-5s build                     %10.1f ms\n", name, ns / 1e6);
    }
    return absl::OkStatus();
  }

  absl::Status Switches() {
    for (const std::int64_t block : {32, 256, 1024}) {
      for (const auto& [name, source] :
           {std::pair{"barrier", kBarriers}, std::pair{"shuffle", kShuffles}}) {
        const int n = static_cast<int>(2'000'000 / block);
        const auto ns = Time(source, CompileMode::kFast, 1, block, n);
        if (!ns.ok()) return ns.status();
        std::printf("%s, %4lld threads, per thread         %10.2f ns\n", name,
                    static_cast<long long>(block),
                    *ns / static_cast<double>(block) / static_cast<double>(n));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Launches() {
    const auto small = Time(kSaxpy, CompileMode::kFast, 1, 32, 32);
    if (!small.ok()) return small.status();
    std::printf("launch of one small block                 %10.2f us\n", *small / 1e3);
    const std::int64_t blocks = 65536;
    const auto large =
        Time(kSaxpy, CompileMode::kFast, blocks, 256, static_cast<int>(blocks * 256));
    if (!large.ok()) return large.status();
    std::printf("16.7M elements, read and written          %10.2f GB/s\n",
                static_cast<double>(blocks) * 256 * 8 / *large);
    return absl::OkStatus();
  }

  absl::Status Checking() {
    const std::int64_t blocks = 512;
    const auto ns = Time(kSaxpy, CompileMode::kCheck, blocks, 256, static_cast<int>(blocks * 256));
    if (!ns.ok()) return ns.status();
    std::printf("check build, per access                   %10.2f ns\n",
                *ns / static_cast<double>(blocks * 256 * 2));
    return absl::OkStatus();
  }
};

int Main(int argc, char** argv) {
  CLI::App app{"Prints what the cpu target costs on this machine."};
  int repeats = 5;
  std::string compiler_name = "g++";
  app.add_option("--repeats", repeats, "Runs of each measurement; the least counts")
      ->check(CLI::Range(1, 1000));
  app.add_option("--compiler", compiler_name, "g++ or clang++");
  CLI11_PARSE(app, argc, argv);
  auto compiler = CpuCompiler::Create({.compiler = compiler_name});
  auto device = CpuDevice::Create({});
  if (!compiler.ok() || !device.ok()) {
    const absl::Status status = compiler.ok() ? device.status() : compiler.status();
    std::fprintf(stderr, "cpu_device: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::printf(
      "%s\n%s, %lld workers, %s\n", (*device)->info().model.c_str(),
      (*compiler)->report().compiler.c_str(), static_cast<long long>((*device)->info().target.cus),
      (*compiler)->report().isolated ? "isolated compiles" : (*compiler)->report().warning.c_str());
  Program program{**compiler, **device, repeats};
  for (const absl::Status& status :
       {program.CompileLatency(), program.Switches(), program.Launches(), program.Checking()}) {
    if (!status.ok()) return program.Fail(status);
  }
  return 0;
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) { return fettle::Main(argc, argv); }
