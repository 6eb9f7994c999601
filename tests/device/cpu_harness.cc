// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cpu_harness.h"

#include <gtest/gtest.h>

#include "compiler/files.h"

namespace fettle {

CpuCompiler& TestCpuCompiler() {
  static const std::unique_ptr<CpuCompiler> compiler = [] {
    auto made = CpuCompiler::Create({.cache_dir = FETTLE_TEST_CACHE});
    if (!made.ok()) {
      std::fprintf(stderr, "%s\n", std::string(made.status().message()).c_str());
      std::abort();
    }
    return *std::move(made);
  }();
  return *compiler;
}

CompileRequest CpuRequest(const std::string& name, const std::string& source,
                          const std::vector<std::string>& entries, const CpuBuildOptions& options) {
  CompileRequest request;
  request.target.name = "cpu";
  request.target.vendor = Vendor::kCpu;
  request.dialect = options.dialect;
  request.mode = options.mode;
  request.lanes = options.lanes;
  request.source_name = name;
  request.source = source;
  request.entries = entries;
  request.macros = options.macros;
  return request;
}

std::string CpuTestSource(const std::string& path) {
  auto text = ReadFile(fmt::format("{}/tests/data/cpu/{}", FETTLE_SOURCE_DIR, path));
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : std::string();
}

CompileResult CompileOrFail(const CompileRequest& request) {
  auto result = TestCpuCompiler().Compile(request, {});
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_TRUE(result->accepted) << result->log;
  return *std::move(result);
}

std::vector<CheckFinding> CpuRun::Errors() const {
  std::vector<CheckFinding> errors;
  for (const CheckFinding& finding : findings) {
    if (finding.is_error) errors.push_back(finding);
  }
  return errors;
}

std::string CpuRun::Text() const {
  std::string text = std::string(status.message()) + "\n";
  for (const CheckFinding& f : findings) {
    text += fmt::format("{} {} at {}:{}: {}\n", f.is_error ? "error" : "warning", f.kind, f.file,
                        f.line, f.message);
  }
  return text;
}

CpuRun RunKernel(Device& device, const CompileResult& compiled, const LaunchConfig& config,
                 std::vector<CpuArgument>& arguments) {
  CpuRun run;
  auto module = device.Load(compiled.code_object, compiled.symbols);
  if (!module.ok()) return {module.status(), {}};
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  std::vector<KernelArgument> values;
  for (CpuArgument& argument : arguments) {
    if (!argument.buffer) {
      values.push_back(argument.bytes);
      continue;
    }
    const auto size = static_cast<std::int64_t>(argument.bytes.size());
    const std::int64_t align = size % 16 == 0 ? 16 : size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : 1;
    auto buffer = device.AllocatePageEnd(size, align);
    if (!buffer.ok()) return {buffer.status(), {}};
    const absl::Status copied = device.CopyIn(**buffer, 0, argument.bytes);
    if (!copied.ok()) return {copied, {}};
    device.Annotate(**buffer, {argument.name, argument.initialised, argument.read_only});
    const std::uint64_t address = (*buffer)->address();
    KernelArgument pointer(sizeof address);
    std::memcpy(pointer.data(), &address, sizeof address);
    values.push_back(std::move(pointer));
    buffers.push_back(*std::move(buffer));
  }
  run.status = device.Launch(**module, compiled.symbols[0], config, values);
  run.findings = device.TakeFindings();
  std::size_t next = 0;
  for (CpuArgument& argument : arguments) {
    if (!argument.buffer) continue;
    EXPECT_TRUE(device.CopyOut(*buffers[next++], 0, argument.bytes).ok());
  }
  return run;
}

}  // namespace fettle
