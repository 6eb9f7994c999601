// SPDX-License-Identifier: Apache-2.0
// Our occupancy against LLVM's own: one source with many kernels, compiled by clang-22 with the
// kernel-resource-usage remark; and our instruction counts against LLVM's disassembler.
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include <gtest/gtest.h>

#include "compiler/child_process.h"
#include "compiler/facts/code_facts.h"
#include "compiler/files.h"

namespace fettle {
namespace {

constexpr int kLds[] = {0, 1024, 4096, 10240, 16384, 32000, 32768, 40000, 65536};
constexpr int kThreads[] = {64, 128, 192, 256, 512, 1024};
constexpr int kLive[] = {4, 24, 48, 96, 160, 240};

// Kernels over LDS sizes and block sizes, and over register counts.
std::string SweepSource() {
  std::string source =
      "#define __global__ __attribute__((global))\n#define __device__ __attribute__((device))\n"
      "#define __shared__ __attribute__((shared))\n";
  for (const int lds : kLds) {
    for (const int threads : kThreads) {
      source += fmt::format(
          "extern \"C\" __global__ __attribute__((amdgpu_flat_work_group_size({1}, {1}))) void "
          "lds_{0}_{1}(int* p, int i) {{\n",
          lds, threads);
      source += lds == 0 ? "  p[i] = i;\n}\n"
                         : fmt::format(
                               "  __shared__ int s[{}];\n  s[i] = p[i];\n  "
                               "__builtin_amdgcn_s_barrier();\n  p[i] = s[i ^ 1];\n}}\n",
                               lds / 4);
    }
  }
  for (const int live : kLive) {
    source += fmt::format(
        "extern \"C\" __global__ __attribute__((amdgpu_flat_work_group_size(1, 256))) void "
        "live_{0}(const float* in, float* out) {{\n  float v[{0}];\n  "
        "const unsigned t = __builtin_amdgcn_workitem_id_x();\n"
        "#pragma unroll\n  for (int i = 0; i < {0}; ++i) v[i] = in[t + i * 256];\n"
        "  __builtin_amdgcn_s_barrier();\n"
        "#pragma unroll\n  for (int i = 0; i < {0}; ++i) out[t + i * 256] = v[i] * v[{0} - 1 - "
        "i];\n"
        "}}\n",
        live);
  }
  return source;
}

// Occupancy by kernel out of the remarks.
std::map<std::string, std::int64_t> Remarks(const std::string& log) {
  std::map<std::string, std::int64_t> occupancy;
  std::string name;
  std::size_t at = 0;
  while (at < log.size()) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, end - at);
    at = end + 1;
    const auto after = [&](const std::string& key) {
      const std::size_t found = line.find(key);
      if (found == std::string::npos) return std::string();
      const std::string rest = line.substr(found + key.size());
      return rest.substr(0, rest.find(' '));
    };
    if (const std::string found = after("Function Name: "); !found.empty()) name = found;
    if (const std::string found = after("Occupancy [waves/SIMD]: "); !found.empty()) {
      std::from_chars(found.data(), found.data() + found.size(), occupancy[name]);
    }
  }
  return occupancy;
}

class Sweep : public ::testing::TestWithParam<const char*> {};

TEST_P(Sweep, OccupancyEqualsLlvms) {
  if (!Exists("/usr/bin/clang-22")) GTEST_SKIP() << "no /usr/bin/clang-22";
  const std::string arch = GetParam();
  auto folder = TemporaryFolder::Create("");
  ASSERT_TRUE(folder.ok());
  const std::string source = folder->path() + "/sweep.hip", object = folder->path() + "/sweep.co";
  ASSERT_TRUE(WriteFile(source, SweepSource()).ok());
  ChildCommand command{
      .argv = {"/usr/bin/clang-22", "-x", "hip", "--offload-device-only", "--no-gpu-bundle-output",
               "--offload-arch=" + arch, "-O2", "-nogpuinc", "-nogpulib", "-nostdinc",
               "-Rpass-analysis=kernel-resource-usage", source, "-o", object},
      .environment = {"PATH=/usr/bin:/bin", "TMPDIR=" + folder->path()}};
  command.limits.output_bytes = 4 << 20;
  const auto child = RunChild(command, {});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(child->ok()) << child->output.substr(0, 2000);
  const auto expected = Remarks(child->output);
  const auto bytes = ReadFile(object);
  ASSERT_TRUE(bytes.ok());
  const auto facts = ReadFacts(*bytes, arch);
  ASSERT_TRUE(facts.ok()) << facts.status();
  ASSERT_EQ(facts->kernels.size(), std::size(kLds) * std::size(kThreads) + std::size(kLive));
  for (const KernelFacts& kernel : facts->kernels) {
    const auto found = expected.find(kernel.name);
    ASSERT_NE(found, expected.end()) << kernel.name;
    EXPECT_EQ(kernel.occupancy_waves, found->second) << kernel.name;
  }
}

// "global_load_dwordx4" and its kin in our classes' words.
std::string ClassOf(const std::string& op) {
  static const std::map<std::string, std::string> kClasses{
      {"global_load_dword", "global_load.b32"},
      {"global_load_dwordx4", "global_load.b128"},
      {"global_load_ubyte", "global_load.b8"},
      {"global_store_dword", "global_store.b32"},
      {"scratch_load_dword", "scratch_load.b32"},
      {"scratch_store_dword", "scratch_store.b32"},
      {"buffer_load_dword", "buffer_load.b32"},
      {"buffer_store_dword", "buffer_store.b32"},
      {"ds_write_b128", "lds_write.b128"},
      {"ds_read_b128", "lds_read.b128"},
      {"ds_read2_b64", "lds_read2.b64"},
      {"ds_write_b32", "lds_write.b32"},
      {"ds_read_b32", "lds_read.b32"},
      {"ds_add_u32", "lds_atomic"},
      {"ds_bpermute_b32", "lane_exchange"},
      {"s_barrier", "barrier"},
      {"global_atomic_add", "global_atomic"},
      {"global_atomic_add_f32", "global_atomic"},
      {"global_atomic_cmpswap", "global_atomic"},
      {"s_load_dword", "scalar_load.b32"},
      {"s_load_dwordx2", "scalar_load.b64"},
      {"s_load_dwordx4", "scalar_load.b128"}};
  const auto found = kClasses.find(op);
  return found == kClasses.end() ? std::string() : found->second;
}

TEST_P(Sweep, InstructionCountsEqualLlvms) {
  if (!Exists("/usr/bin/llvm-objdump-22")) GTEST_SKIP() << "no /usr/bin/llvm-objdump-22";
  const std::string path =
      fmt::format("{}/tests/data/code_objects/facts_kernels.{}.co", FETTLE_SOURCE_DIR, GetParam());
  ChildCommand command{.argv = {"/usr/bin/llvm-objdump-22", "-d", "--no-show-raw-insn",
                                fmt::format("--mcpu={}", GetParam()), path}};
  command.limits.output_bytes = 8 << 20;
  const auto child = RunChild(command, {});
  ASSERT_TRUE(child.ok() && child->ok());
  std::map<std::string, std::int64_t> expected, matrix, actual, actual_matrix;
  std::size_t at = 0;
  while (at < child->output.size()) {
    const std::size_t end = std::min(child->output.find('\n', at), child->output.size());
    const std::string line = child->output.substr(at, end - at);
    at = end + 1;
    if (line.empty() || line[0] != '\t') continue;
    const std::string op = line.substr(1, line.find_first_of(" \t", 1) - 1);
    if (op.starts_with("v_mfma")) ++matrix[op];
    if (const std::string name = ClassOf(op); !name.empty()) ++expected[name];
  }
  const auto bytes = ReadFile(path);
  ASSERT_TRUE(bytes.ok());
  const auto facts = ReadFacts(*bytes, GetParam());
  ASSERT_TRUE(facts.ok()) << facts.status();
  for (const KernelFacts& kernel : facts->kernels) {
    for (const auto& [name, count] : kernel.instructions) {
      if (name != "instructions") actual[name] += count;
    }
    for (const auto& [name, count] : kernel.matrix) actual_matrix[name] += count;
  }
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(actual, expected);
  EXPECT_EQ(actual_matrix, matrix);
}

INSTANTIATE_TEST_SUITE_P(Archs, Sweep, ::testing::Values("gfx90a", "gfx942", "gfx950"),
                         [](const auto& arch) { return std::string(arch.param); });

}  // namespace
}  // namespace fettle
