// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compiles a kernel of tests/data/cpu for the cpu target and runs it once.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "compiler/cpu_compiler.h"
#include "device/cpu_device.h"

namespace fettle {

// An argument of a kernel: a scalar's bytes, or a buffer that is copied in and out again.
struct CpuArgument {
  std::string name;
  std::vector<std::uint8_t> bytes;
  bool buffer = true;
  bool initialised = true;
  bool read_only = false;
};

template <class T>
CpuArgument In(std::string name, const std::vector<T>& values) {
  CpuArgument out{.name = std::move(name), .read_only = true};
  out.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(out.bytes.data(), values.data(), out.bytes.size());
  return out;
}
template <class T>
CpuArgument InOut(std::string name, const std::vector<T>& values) {
  CpuArgument out = In(std::move(name), values);
  out.read_only = false;
  return out;
}
// Poisoned with 0xFF: a NaN for floats.
template <class T>
CpuArgument Out(std::string name, std::size_t count) {
  return {.name = std::move(name),
          .bytes = std::vector<std::uint8_t>(count * sizeof(T), 0xFF),
          .initialised = false};
}
template <class T>
CpuArgument Scalar(T value) {
  CpuArgument out{.buffer = false};
  out.bytes.resize(sizeof(T));
  std::memcpy(out.bytes.data(), &value, sizeof(T));
  return out;
}
template <class T>
std::vector<T> ValuesOf(const CpuArgument& argument) {
  std::vector<T> out(argument.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), argument.bytes.data(), out.size() * sizeof(T));
  return out;
}

struct CpuBuildOptions {
  CompileMode mode = CompileMode::kFast;
  int lanes = 32;
  std::vector<std::pair<std::string, std::string>> macros;
  Dialect dialect = Dialect::kHip;
};

// The compiler that all tests of a build tree share, so that runtime headers are precompiled once.
CpuCompiler& TestCpuCompiler();

CompileRequest CpuRequest(const std::string& name, const std::string& source,
                          const std::vector<std::string>& entries,
                          const CpuBuildOptions& options = {});
// Text of tests/data/cpu/<path>.
std::string CpuTestSource(const std::string& path);
// Compiles; fails the test when the source is rejected.
CompileResult CompileOrFail(const CompileRequest& request);

struct CpuRun {
  absl::Status status;
  std::vector<CheckFinding> findings;

  std::vector<CheckFinding> Errors() const;
  std::string Text() const;  // For failure messages.
};

// Runs the first entry once; buffers in `arguments` come back with what the kernel wrote. Each
// buffer ends at an unmapped page.
CpuRun RunKernel(Device& device, const CompileResult& compiled, const LaunchConfig& config,
                 std::vector<CpuArgument>& arguments);

}  // namespace fettle
