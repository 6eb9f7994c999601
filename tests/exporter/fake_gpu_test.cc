// SPDX-License-Identifier: Apache-2.0
// The loader over a fake driver of either vendor, under the thread sanitizer. No GPU is used.

#include "tests/exporter/consumer.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

constexpr char kProgram[] = R"text(
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#include <fettle_ops/row_sum.hpp>
namespace ops = fettle_ops::row_sum;

static void (*set_device)(int);
static int (*launch_count)();
static int (*module_count)();
static int (*last_launch)(char*, unsigned*, std::uint64_t*);
static void (*loaded)(char*);

alignas(256) static float x[1 << 20], y[4096];

static fettle::Result call(ops::Operator& op, fettle::Stream stream, std::int64_t rows, std::int64_t cols,
                           fettle::DType dtype = fettle::DType::f32) {
  ops::Types types;
  types.T = dtype;
  ops::Shape shape;
  shape.rows = rows;
  shape.cols = cols;
  shape.mode = 1;
  ops::Args args;
  args.x = x;
  args.y = y;
  args.scale = 0.5;
  return op(stream, types, shape, args);
}
static void show(const fettle::Result& r) {
  std::printf("%d %s %s %s %d %s\n", static_cast<int>(r.status), fettle::choice_name(r.choice), fettle::why_name(r.why), r.kernel, r.code, r.message);
}
static void show_last() {
  char symbol[200] = "";
  unsigned n[7] = {};
  std::uint64_t first = 0;
  last_launch(symbol, n, &first);
  std::printf("%s grid %u block %u first %d\n", symbol, n[0], n[3], first == reinterpret_cast<std::uint64_t>(x) ? 1 : 0);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool cuda = argv[1][0] == 'c';
  const fettle::Backend backend = cuda ? fettle::Backend::kCuda : fettle::Backend::kHip;
  const fettle::Stream stream{backend, reinterpret_cast<void*>(0x77)};
  if (void* fake = dlopen(argv[3], RTLD_NOW)) {
    set_device = reinterpret_cast<void (*)(int)>(dlsym(fake, "fake_gpu_set_device"));
    launch_count = reinterpret_cast<int (*)()>(dlsym(fake, "fake_gpu_launch_count"));
    module_count = reinterpret_cast<int (*)()>(dlsym(fake, "fake_gpu_modules"));
    loaded = reinterpret_cast<void (*)(char*)>(dlsym(fake, "fake_gpu_loaded"));
    last_launch = reinterpret_cast<int (*)(char*, unsigned*, std::uint64_t*)>(dlsym(fake, "fake_gpu_last"));
  }
  static ops::Operator op;
  if (argv[2][0] != 'd') op.allow_compiled_only(true);  // "default": what never ran is not used.
  show(op.prepare(backend));
  show(call(op, stream, 512, 256));
  if (argv[2][0] == 'f' || argv[2][0] == 'd') {  // "fail": one call is enough.
    char image[200] = "";
    if (loaded != nullptr) loaded(image);
    std::printf("loaded: %s\n", image);
    return 0;
  }
  show_last();
  show(call(op, stream, 512, 256, fettle::DType::f64));
  show_last();
  show(call(op, stream, 1000, 1000));
  std::vector<std::thread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      set_device(t % 2);
      if (!op.prepare(backend)) bad.fetch_add(1);
      for (int i = 0; i < 200; ++i) {
        if (!call(op, stream, 1 + (i * 7 + t) % 512, 4 * (1 + i % 64))) bad.fetch_add(1);
        if (i % 50 == 0) op.read_switches();
        if (i % 40 == 0) (void)op.statistics(), (void)op.misses();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("bad %d launches %d\n", bad.load(), launch_count());
  op.unload();
  std::printf("modules %d\n", module_count());
  show(call(op, stream, 512, 256));
  return 0;
}
)text";

class FakeGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    bundle_ = GuardGpuBundle();
    ASSERT_FALSE(bundle_.empty());
    const std::string at = folder_.path() + "/bundle";
    ASSERT_TRUE(WriteBundle(at, bundle_).ok());
    library_ = FETTLE_FAKE_GPU;
    program_ = CompileConsumer(folder_, kProgram, bundle_, at, "-fsanitize=thread -Wno-tsan -g");
  }
  CommandResult Run(const std::string& vendor, const std::string& how,
                    const std::string& environment) {
    return RunCommand(
        fmt::format("TSAN_OPTIONS=halt_on_error=1:report_signal_unsafe=0 FETTLE_CUDA_LIBRARY={0} "
                    "FETTLE_HIP_LIBRARY={0} {1} {2} {3} {4} {0}",
                    library_, environment, program_, vendor, how));
  }
  TestFolder folder_;
  BundleFiles bundle_;
  std::string library_, program_;
};

// One test, because compiling the program takes longer than everything that it does.
TEST_F(FakeGpu, BothVendorsLoadLaunchFailAndUnloadWithoutARace) {
  for (const char* vendor : {"cuda", "hip"}) {
    const CommandResult good = Run(vendor, "threads", "");
    EXPECT_EQ(good.code, 0) << good.output;
    EXPECT_EQ(good.output.find("WARNING: ThreadSanitizer"), std::string::npos) << good.output;
    for (const char* line :
         {"0 exact  narrow 0 ", "sym_narrow_f32 grid 512 block 64 first 1",
          "sym_baseline_f64 grid 512 block 32 first 1", "0 fallback outside_tested baseline 0",
          "bad 0 launches 3203", "modules 0"}) {
      EXPECT_NE(good.output.find(line), std::string::npos) << vendor << ": " << line << "\n"
                                                           << good.output;
    }
    EXPECT_NE(good.output.find("prepare() has not loaded this device"), std::string::npos)
        << good.output;
    const std::pair<const char*, const char*> failures[] = {
        {"init", "does not start"},
        {"load", "does not load an object"},
        {"symbol", "a symbol is missing"},
        {"launch", "the driver refused a launch"},
        {"device", "no device is current"}};
    for (const auto& [what, message] : failures) {
      const CommandResult failed = Run(vendor, "fail", fmt::format("FAKE_GPU_FAIL={}", what));
      EXPECT_EQ(failed.code, 0) << failed.output;
      EXPECT_NE(failed.output.find(message), std::string::npos) << vendor << " " << what << "\n"
                                                                << failed.output;
    }
    // What was only compiled serves nobody unless it is asked for.
    const CommandResult plain = Run(vendor, "default", "");
    EXPECT_NE(plain.output.find("compiled_only"), std::string::npos) << plain.output;
  }
  EXPECT_NE(Run("cuda", "fail", "FAKE_GPU_FAIL=context").output.find("no CUDA context"),
            std::string::npos);
  // sm_90a runs on capability 9.0 alone, before any PTX; later devices take the highest level of
  // PTX that they know, older ones a lower one or none.
  for (const auto& [capability, wanted] : {std::pair{"90", "pretended object sm_90a "},
                                           {"91", "pretended object compute_90 "},
                                           {"100", "pretended object compute_90 "},
                                           {"89", "pretended object compute_80 "}}) {
    const CommandResult on = Run("cuda", "fail", fmt::format("FAKE_GPU_CC={}", capability));
    EXPECT_NE(on.output.find("0 exact  narrow"), std::string::npos) << on.output;
    EXPECT_NE(on.output.find(wanted), std::string::npos) << capability << "\n" << on.output;
  }
  EXPECT_NE(Run("cuda", "fail", "FAKE_GPU_CC=75")
                .output.find("no object of this bundle is for this device"),
            std::string::npos);
  // Launches beyond the device's limits go to a kernel whose launches are within them.
  EXPECT_NE(Run("cuda", "fail", "FAKE_GPU_MAX_THREADS=48").output.find("fallback limits baseline"),
            std::string::npos);
  // gfx950 on any setting of its features, not on gfx942.
  EXPECT_NE(Run("hip", "fail", "FAKE_GPU_ARCH=gfx942:sramecc+:xnack-")
                .output.find("no object of this bundle"),
            std::string::npos);
  for (const char* arch : {"gfx950", "gfx950:sramecc+:xnack+", "gfx950:sramecc-:xnack-"}) {
    EXPECT_NE(
        Run("hip", "fail", fmt::format("FAKE_GPU_ARCH={}", arch)).output.find("0 exact  narrow"),
        std::string::npos)
        << arch;
  }
  const std::string missing =
      RunCommand(fmt::format("FETTLE_CUDA_LIBRARY=/nowhere.so {} cuda fail /nowhere.so", program_))
          .output;
  EXPECT_NE(missing.find("no CUDA driver"), std::string::npos) << missing;
}

}  // namespace
}  // namespace fettle
