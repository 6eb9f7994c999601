// SPDX-License-Identifier: Apache-2.0
// Figures of exports: a bundle of many variants laid out, written, read and verified; a decision of
// the generated dispatcher; what a call costs the host beyond the launch itself.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "core/target.h"
#include "exporter/verify.h"
#include "tests/exporter/consumer.h"
#include "tests/exporter/sample_variant.h"

namespace fettle {
namespace {

// Seconds by the clock, and of this process's own work: on a busy machine only those compare.
struct Spent {
  double wall = 0, cpu = 0;
};
Spent Seconds(const std::function<void()>& work) {
  const std::clock_t cpu = std::clock();
  const auto begin = std::chrono::steady_clock::now();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}

// A bundle of `count` variants that differ in BLOCK and in what they are fast at.
std::vector<VariantProvenance> ManyVariants(int count, FakeBlobs& blobs) {
  TaskFiles task = GuardTask();
  std::string values;
  for (int i = 0; i < count; ++i) values += fmt::format("{}{}", i == 0 ? "" : ", ", 32 + i);
  std::string& yaml = task["task.yaml"];
  yaml.replace(yaml.find("BLOCK: [32, 64, 128]"), 20, fmt::format("BLOCK: [{}]", values));
  std::vector<VariantProvenance> variants;
  for (int i = 0; i < count; ++i) {
    auto parsed = ParseProvenance(
        MakeProvenance(blobs, {.id = fmt::format("variant{:03}", i),
                               .task = task,
                               .values = {{"BLOCK", 32 + i}},
                               .ratios = {1.1 + 0.004 * i, 1.5 - 0.003 * i, 1.2 + 0.01 * (i % 7)},
                               .share_object = true})
            .dump());
    if (parsed.ok()) variants.push_back(*std::move(parsed));
  }
  return variants;
}

void ExportFigures(int count) {
  FakeBlobs blobs;
  const std::vector<VariantProvenance> variants = ManyVariants(count, blobs);
  const TestFolder folder;
  absl::StatusOr<BundleFiles> files;
  const Spent build = Seconds([&] { files = BuildBundle(variants, blobs); });
  if (!files.ok()) {
    fmt::print("export: {}\n", files.status().ToString());
    return;
  }
  std::size_t bytes = 0;
  for (const auto& [path, text] : *files) bytes += text.size();
  const Spent write = Seconds([&] { (void)WriteBundle(folder.path() + "/bundle", *files); });
  BundleFiles read;
  const Spent load = Seconds([&] { read = *ReadBundle(folder.path() + "/bundle"); });
  BundleReport report;
  const Spent verify = Seconds([&] { report = VerifyBundle(read); });
  fmt::print("variants {} files {} MiB {:.1f}\n", variants.size(), files->size(),
             static_cast<double>(bytes) / (1 << 20));
  fmt::print(
      "export: checked and laid out {:.2f} s ({:.2f} s of the processor), written durably {:.2f} s "
      "({:.2f} s)\n",
      build.wall, build.cpu, write.wall, write.cpu);
  fmt::print(
      "verify: read {:.2f} s ({:.2f} s), verified {:.2f} s ({:.2f} s of the processor), {} "
      "problems\n",
      load.wall, load.cpu, verify.wall, verify.cpu, report.problems.size());
}

constexpr char kProgram[] = R"text(
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fettle_ops/row_sum.hpp>
namespace ops = fettle_ops::row_sum;
// Of many rounds, each shorter than what another process is given at a time.
template <class F> double best_ns(int count, F&& work) {
  double best = 1e18;
  for (int round = 0; round < 300; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) work(i);
    const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / count;
    if (ns < best) best = ns;
  }
  return best;
}
alignas(256) static float x[1 << 16], y[4096];
int main(int, char** argv) {
  static ops::Operator op;
  op.allow_compiled_only(true);
  ops::Types types;
  ops::Shape shape;
  shape.cols = 64;
  shape.mode = 1;
  ops::Args args;
  args.x = x;
  args.y = y;
  args.scale = 0.5;
  long sum = 0;
  const double known = best_ns(2000, [&](int i) {
    shape.rows = 1 + i % 64;
    sum += op.choose("cpu", types, shape, args).kernel;
  });
  const double fresh = best_ns(1000, [&](int i) {
    static int salt = 0;
    shape.rows = 1 + (i + salt++) % 3000;
    shape.cols = 1 + (i * 7) % 300;
    sum += op.choose("cpu", types, shape, args).kernel;
  });
  // Sizes that variants take, never remembered: a switch that may change at any time is asked.
  op.set_disabled([](void*, const char*, const char*) { return false; }, nullptr);
  const double anew = best_ns(1000, [&](int i) {
    shape.rows = 1 + i % 128;
    shape.cols = 4 * (1 + (i * 7) % 250);
    sum += op.choose("cpu", types, shape, args).kernel;
  });
  op.set_disabled(nullptr, nullptr);
  std::printf("decision, a size seen before: %.0f ns; a new one each time: %.0f ns; never remembered, all guards: %.0f ns\n",
              known, fresh, anew);
  shape.rows = 512;
  shape.cols = 64;
  (void)argv;
  if (!op.prepare(fettle::Backend::kCuda)) return 1;
  const fettle::Driver& driver = fettle::cuda_driver();
  void* module = nullptr;
  void* function = nullptr;
  driver.module_load(&module, "");
  driver.module_function(&function, module, "k");
  const void* a = x;
  void* parameters[] = {&a, nullptr};
  // Few enough that the fake driver's record of launches stays small.
  const double raw = best_ns(500, [&](int) { driver.launch(function, 512, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr); });
  const double call = best_ns(500, [&](int) { sum += static_cast<long>(op(fettle::cuda(nullptr), types, shape, args).status); });
  std::printf("a launch of the fake driver %.0f ns; a whole call %.0f ns: %.0f ns above it (%ld)\n", raw, call, call - raw, sum & 1);
}
)text";

// The guard task's bundle with pretended objects for sm_90a, so that the fake driver can be called.
BundleFiles BundleForFakeGpu() {
  FakeBlobs blobs;
  const TaskFiles files = GuardTask();
  std::vector<TaskProblem> problems;
  const auto task = Task::Parse(files, &problems);
  auto variant = ParseProvenance(
      MakeProvenance(
          blobs,
          {.id = "wide", .task = files, .values = {{"BLOCK", 64}}, .ratios = {1.5, 1.5, 1.5}})
          .dump());
  BundleExtras extras = SampleExtras(**task);
  const Target target = *FindTarget("sm_90a");
  const std::vector<BoundCase> cases = *OwnCases(**task, "sm_90a");
  for (const char* kernel : {"wide", kBaselineId}) {
    const TunableValues values = {{"BLOCK", std::string(kernel) == "wide" ? 64 : 32}};
    std::set<std::string> seen;
    for (const BoundCase& bound_case : cases) {
      const auto inputs = *(*task)->BuildInputsFor((*task)->baseline(), values, bound_case, target);
      if (!seen.insert(inputs.key).second) continue;
      extras.builds.push_back({.kernel = kernel,
                               .target = "sm_90a",
                               .key = inputs.key,
                               .compiler = "none",
                               .machine = "",
                               .entries = inputs.entries,
                               .symbols = {"symbol"},
                               .facts = nlohmann::json::object(),
                               .code_object = fmt::format("pretended {} {}", kernel, inputs.key)});
    }
  }
  const std::vector<VariantProvenance> variants = {*std::move(variant)};
  auto bundle = BuildBundle(variants, blobs, extras);
  return bundle.ok() ? *std::move(bundle) : BundleFiles();
}

void CallFigures() {
  const BundleFiles bundle = BundleForFakeGpu();
  const TestFolder folder;
  if (!WriteBundle(folder.path() + "/bundle", bundle).ok()) return;
  const std::string program =
      CompileConsumer(folder, kProgram, bundle, folder.path() + "/bundle", "-O2");
  fmt::print("{}",
             RunCommand(fmt::format("FETTLE_CUDA_LIBRARY={} {}", FETTLE_FAKE_GPU, program)).output);
}

int Main(int argc, char** argv) {
  CLI::App app("figures of exports");
  int count = 100;
  app.add_option("--variants", count, "variants of the bundle")->check(CLI::Range(1, 500));
  CLI11_PARSE(app, argc, argv);
  ExportFigures(count);
  CallFigures();
  return 0;
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) { return fettle::Main(argc, argv); }
