// SPDX-License-Identifier: Apache-2.0
// The generated PyTorch operator over PyTorch's stable C interface, called through a stand-in for
// it (tests/fakes/fake_torch): values, refusals, streams, and that every reference is given back.

#include <filesystem>

#include "tests/exporter/consumer.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

constexpr char kCaller[] = R"text(
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include "fake_torch.h"

extern "C" std::int32_t aoti_torch_delete_tensor_object(AtenTensorOpaque*);

alignas(256) static float x[512 * 256 + 64], y[512];
static int failed = 0;

static std::uint64_t bits(double value) {
  std::uint64_t out;
  std::memcpy(&out, &value, sizeof out);
  return out;
}
static std::uint64_t tensor(float* data, std::int64_t rows, std::int64_t cols, int dtype = 6, int device = 0, int index = 0,
                            std::int64_t step = 0) {
  const std::int64_t sizes[] = {rows, cols}, strides[] = {step, 1};
  return reinterpret_cast<std::uint64_t>(fake_torch_tensor(data, dtype, cols == 0 ? 1 : 2, sizes, step == 0 ? nullptr : strides, device, index));
}
static void show(const char* what, const char* message) { std::printf("%s: %s\n", what, message == nullptr ? "ok" : message); }
static const char* with_output(std::uint64_t in, std::uint64_t out, const char* key) {
  std::uint64_t stack[] = {in, 1, bits(0.5), out};
  return fake_torch_call("row_sum_out", key, stack, 4, 0);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  void* extension = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (extension == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  reinterpret_cast<void (*)(const char*)>(dlsym(extension, "fettle_torch_set_root"))(argv[2]);
  reinterpret_cast<void (*)(int)>(dlsym(extension, "fettle_torch_allow_compiled_only"))(1);
  const auto statistics = reinterpret_cast<const char* (*)()>(dlsym(extension, "fettle_torch_statistics"));
  std::fputs(fake_torch_schemas(), stdout);
  for (int i = 0; i < 512 * 256; ++i) x[i] = static_cast<float>(i % 7 - 3);
  // The form that makes its output.
  std::uint64_t stack[] = {tensor(x, 512, 256), 1, bits(0.5)};
  show("call", fake_torch_call("row_sum", "CPU", stack, 3, 1));
  auto* made = reinterpret_cast<AtenTensorOpaque*>(stack[0]);
  const float* sums = static_cast<const float*>(fake_torch_data(made));
  for (int r = 0; r < 512; ++r) {
    double wanted = 0;
    for (int c = 0; c < 256; ++c) wanted += 0.5 * static_cast<double>(x[r * 256 + c]);
    if (std::fabs(static_cast<double>(sums[r]) - wanted) > 1e-3) ++failed;
  }
  std::printf("rows %d dtype %d wrong %d\n", static_cast<int>(fake_torch_size(made, 0)), fake_torch_dtype(made), failed);
  aoti_torch_delete_tensor_object(made);
  // The form that writes into a given one.
  show("out", with_output(tensor(x, 512, 256), tensor(y, 512, 0), "CPU"));
  std::printf("same %d\n", std::fabs(y[3] - 0.5f * [] { float s = 0; for (int c = 0; c < 256; ++c) s += x[3 * 256 + c]; return s; }()) < 1e-3f ? 1 : 0);
  std::printf("%s", statistics());
  // Refusals, each with the arguments given back.
  std::uint64_t half[] = {tensor(x, 512, 256, 5), 1, bits(0.5)};
  show("half", fake_torch_call("row_sum", "CPU", half, 3, 1));
  std::uint64_t flat[] = {tensor(x, 512, 0), 1, bits(0.5)};
  show("flat", fake_torch_call("row_sum", "CPU", flat, 3, 1));
  std::uint64_t mode[] = {tensor(x, 512, 256), 3, bits(0.5)};
  show("mode", fake_torch_call("row_sum", "CPU", mode, 3, 1));
  std::uint64_t strided[] = {tensor(x, 8, 16, 6, 0, 0, 32), 1, bits(0.5)};
  show("strided", fake_torch_call("row_sum", "CPU", strided, 3, 1));
  show("elsewhere", with_output(tensor(x, 512, 256), tensor(y, 512, 0, 6, 1), "CPU"));
  show("short", with_output(tensor(x, 512, 256), tensor(y, 100, 0), "CPU"));
  show("complex", with_output(tensor(x, 512, 256, 9), tensor(y, 512, 0), "CPU"));
  // A GPU that is not the current one: its stream, and a guard around the call.
  show("gpu", with_output(tensor(x, 512, 256, 6, 1, 1), tensor(y, 512, 0, 6, 1, 1), "CUDA"));
  void* fake_gpu = dlopen(argv[3], RTLD_NOW | RTLD_NOLOAD);
  char symbol[200] = "";
  unsigned numbers[7] = {};
  std::uint64_t first = 0;
  reinterpret_cast<int (*)(char*, unsigned*, std::uint64_t*)>(dlsym(fake_gpu, "fake_gpu_last"))(symbol, numbers, &first);
  std::printf("%s grid %u stream %lx guards %d\n", symbol, numbers[0],
              reinterpret_cast<unsigned long (*)()>(dlsym(fake_gpu, "fake_gpu_last_stream"))(), fake_torch_guards_made());
  std::printf("tensors %d guards %d\n", fake_torch_tensors(), fake_torch_guards());
  return failed;
}
)text";

TEST(Torch, TheStableOperatorRunsRefusesAndGivesEveryReferenceBack) {
  const TestFolder folder;
  const std::string bundle = folder.path() + "/bundle", fakes = FETTLE_FAKE_TORCH;
  ASSERT_TRUE(WriteBundle(bundle, GuardGpuBundle()).ok());
  const std::string extension = folder.path() + "/extension.so";
  const CommandResult built = RunCommand(fmt::format(
      "g++ -O1 -std=c++20 -shared -fPIC -pthread -Wall -Wextra -Wshadow -Wconversion -Werror "
      "-DFETTLE_TORCH_STABLE -I{0}/include -I{0}/integrations/torch {0}/integrations/torch/"
      "binding.cpp -o {1} -L{2} -Wl,--no-as-needed -ltorch_cpu -ldl",
      bundle, extension, fakes));
  ASSERT_EQ(built.code, 0) << built.output.substr(0, 4000);
  folder.Write("caller.cc", kCaller);
  const CommandResult linked = RunCommand(fmt::format(
      "g++ -O1 -std=c++20 -I{1}/tests/fakes/fake_torch {0}/caller.cc -o {0}/caller -L{2} "
      "-Wl,-rpath,{2} -Wl,--no-as-needed -ltorch_cpu -ltorch_cuda -ldl",
      folder.path(), FETTLE_SOURCE_DIR, fakes));
  ASSERT_EQ(linked.code, 0) << linked.output.substr(0, 4000);
  const CommandResult run =
      RunCommand(fmt::format("FETTLE_CUDA_LIBRARY={3} {0}/caller {1} {2} {3}", folder.path(),
                             extension, bundle, FETTLE_FAKE_GPU));
  EXPECT_EQ(run.code, 0) << run.output;
  for (const char* line :
       {"::row_sum(Tensor x, SymInt mode, float scale) -> Tensor\n",
        "::row_sum_out(Tensor x, SymInt mode, float scale, Tensor(a!) y) -> ()\n", "call: ok\n",
        "rows 512 dtype 6 wrong 0\n", "out: ok\nsame 1\n{\"exact\":2,",
        "half: row_sum: T: a dtype that the operator does not take\n",
        "flat: row_sum: x has too few dimensions\n",
        "mode: row_sum: mode: outside of the operator's domain\n",
        "strided: row_sum: a tensor has other strides than the operator takes",
        "elsewhere: row_sum: y is on another device\n",
        "short: row_sum: a tensor has another shape than its dims say",
        "complex: row_sum: a dtype that is not supported\n", "gpu: ok\n",
        "sym_narrow_f32 grid 512 stream 7001 guards 1\n", "tensors 0 guards 0\n"}) {
    EXPECT_NE(run.output.find(line), std::string::npos) << line << "\n" << run.output;
  }
}

// As much of the Python package as op.py and loader.py use.
constexpr char kTorchPackage[] = R"py(
import ctypes
import pathlib
import types

__version__ = "2.11.0"
version = types.SimpleNamespace(cuda="13.0", hip=None)
ctypes.CDLL(str(pathlib.Path(__file__).parent / "lib" / "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
fakes = {}


def register_fake(name):
    def keep(function):
        fakes[name.split("::")[1]] = function
        return function
    return keep


class Space:
    def __getattr__(self, name):
        return types.SimpleNamespace(default="operator " + name)


class Ops:
    def load_library(self, path):
        ctypes.CDLL(path)

    def __getattr__(self, space):
        return Space()


library = types.SimpleNamespace(register_fake=register_fake)
ops = Ops()
)py";

constexpr char kImporter[] = R"py(
import os
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[2] + "/integrations/torch")
import torch
import op


class Tensor:
    dtype = "its dtype"

    def size(self, axis):
        return [512, 256][axis]

    def new_empty(self, sizes, dtype):
        return sizes, dtype


print(op.row_sum, "|", op.row_sum_out, "|", op.statistics().splitlines()[0])
print(torch.fakes["row_sum"](Tensor(), 1, 0.5), torch.fakes["row_sum_out"](Tensor(), 1, 0.5, Tensor()))
op.read_switches()
op.allow_compiled_only()
cache = pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "fettle" / "torch"
print("built", sorted(path.name.rsplit("-", 1)[1] for path in cache.iterdir()), [path.stat().st_mtime_ns for path in cache.iterdir()])
)py";

TEST(Torch, OpPyBuildsTheOperatorOnceAlsoAfterTheBundleMoved) {
  const TestFolder folder;
  ASSERT_TRUE(WriteBundle(folder.path() + "/bundle", GuardBundle()).ok());
  std::filesystem::create_directories(folder.path() + "/torch");
  std::filesystem::create_directory_symlink(FETTLE_FAKE_TORCH, folder.path() + "/torch/lib");
  folder.Write("torch/__init__.py", kTorchPackage);
  folder.Write("importer.py", kImporter);
  const auto import = [&](const std::string& bundle, const std::string& environment) {
    return RunCommand(
        fmt::format("{1} XDG_CACHE_HOME={0}/cache python3 {0}/importer.py {0} {0}/{2}",
                    folder.path(), environment, bundle));
  };
  const CommandResult first = import("bundle", "");
  EXPECT_EQ(first.code, 0) << first.output;
  for (const char* line : {"operator row_sum | operator row_sum_out | {\"exact\":0,",
                           "((512,), 'its dtype') None\n", "built ['stable.so']"}) {
    EXPECT_NE(first.output.find(line), std::string::npos) << line << "\n" << first.output;
  }
  std::filesystem::rename(folder.path() + "/bundle", folder.path() + "/moved");
  // The same binary, not built again: its time of change is among the output.
  EXPECT_EQ(import("moved", "").output, first.output);
  const CommandResult odd = import("moved", "FETTLE_TORCH_ABI=both");
  EXPECT_NE(odd.output.find("FETTLE_TORCH_ABI: 'stable' or 'version', not 'both'"),
            std::string::npos)
      << odd.output;
}

}  // namespace
}  // namespace fettle
