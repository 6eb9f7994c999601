// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/fakes/bad_inputs.h"

namespace fettle {
namespace {

TEST(BadInput, EachGetsItsVerdictAndTheNextEvaluationIsHealthy) {
  UnitRunnerOptions options;
  options.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
  options.device_ids = {"cpu"};
  const auto runner = UnitRunner::Create(options);
  ASSERT_TRUE(runner.ok()) << runner.status();
  BadInputLab lab(**runner);
  for (const BadInput& input : BadInputs()) {
    std::string seen;
    EXPECT_EQ(lab.Problem(input, &seen), "") << input.name;
    std::printf("%-16s %s\n", input.name, seen.substr(0, 200).c_str());
  }
}

}  // namespace
}  // namespace fettle
