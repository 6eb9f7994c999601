// SPDX-License-Identifier: Apache-2.0
// A cheat that does not compile for a GPU shows nothing there, and an honest kernel that does not
// is punished: every entry that is to run must compile for each GPU target whose compiler is here.

#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/cheats/bank.h"
#include "worker/lane_gate.h"
#include "worker/unit_builds.h"

namespace fettle {
namespace {

constexpr char kFolder[] = FETTLE_SOURCE_DIR "/tests/cheats";

class BankCompiles : public ::testing::TestWithParam<const char*> {};

bool Expects(const BankEntry& entry, const char* verdict) {
  return std::find(entry.expect.begin(), entry.expect.end(), verdict) != entry.expect.end();
}

TEST_P(BankCompiles, EveryEntryThatIsToRun) {
  const auto target = FindTarget(GetParam());
  ASSERT_TRUE(target.ok()) << target.status();
  const Toolchains toolchains = Toolchains::Find(FETTLE_CACHE_DIR, /*gpu=*/true);
  const auto compiler = toolchains.For(*target);
  if (!compiler.ok() && std::getenv("FETTLE_REQUIRE_GPU") == nullptr) {
    GTEST_SKIP() << compiler.status();
  }
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  const auto bank = ReadBank(kFolder);
  ASSERT_TRUE(bank.ok()) << bank.status();
  LaneGate gate(1);
  int compiled = 0;
  for (const BankEntry& entry : *bank) {
    if (!RunsOn(entry.targets, GetParam()) || entry.kind == "broken" || Expects(entry, "REFUSED") ||
        Expects(entry, "COMPILE_ERROR")) {
      continue;
    }
    // Without ROCm's device library there is no erfc (compiler/gpu/shims/fettle_amd_device.h).
    if (entry.id == "h_gelu_erf" && (*compiler)->name() == "clang") continue;
    const auto parsed = ParseBankEntry(kFolder, entry);
    ASSERT_TRUE(parsed.ok()) << entry.id << ": " << parsed.status();
    ASSERT_TRUE(parsed->kernel) << entry.id << ": " << parsed->problem;
    const auto cases = parsed->task->BindCases(CaseSet::kTimed, 1, *target);
    ASSERT_TRUE(cases.ok()) << entry.id << ": " << cases.status();
    const BuildContext context{.task = parsed->task.get(),
                               .target = *target,
                               .compiler = *compiler,
                               .gate = &gate,
                               .stop = {}};
    const KernelUnderTest kernel{
        .digest = "", .kernel = *parsed->kernel, .values = parsed->kernel->values};
    const auto built = BuildKernel(context, kernel, *cases, CompileMode::kFast, 32);
    ASSERT_TRUE(built.ok()) << entry.id << ": " << built.status();
    EXPECT_FALSE(built->rejected) << entry.id << ":\n" << built->rejected->log.substr(0, 600);
    ++compiled;
  }
  EXPECT_GE(compiled, 120);
}

INSTANTIATE_TEST_SUITE_P(Targets, BankCompiles, ::testing::Values("sm_90a", "gfx950"));

}  // namespace
}  // namespace fettle
