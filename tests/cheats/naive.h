// SPDX-License-Identifier: Apache-2.0
#pragma once

// The naive harness beside the bank: shows, for each cheat, that a harness which checks once and
// times back to back is fooled by it. It compiles with fettle's compilers, without fettle's policy,
// and judges in a process of its own (naive_harness.cc).
//
// Habits that public harnesses have and that an entry may ask for (integrity.md names them):
//   ""               allclose at 1 % on the timed case, into memory that still holds the baseline's
//                    output; NaN passes; of several outputs the first is looked at
//   reference_after  the reference runs after the candidate, on the same inputs
//   small            checks the first checked case, times the timed one
//   zeroed           outputs are zeros before the launch
//   zeros, ones      inputs are all zeros, or ones (constant weights)
//   known_seed       inputs come from a generator and a seed that everyone knows
//   expected_nearby  the expected output lies in the same pool, behind the output
//   loose            a tolerance of 2 %
//   most             5 % of the elements may be wrong
//   codes            integers may be one off
//   sum, cosine      compares sums, or directions, only
//   promoted         takes whatever dtype comes back
//   exit_code        a process that ends with 0 has passed
//   plain_compiler   preprocesses the source with a compiler outside any sandbox

#include <string>

#include <absl/status/statusor.h>

#include "tests/cheats/bank.h"

namespace fettle {

struct NaiveVerdict {
  bool correct = false;  // It called the kernel right.
  double ratio = 0;      // Its speed-up; 0: not timed.
  std::string note;      // What happened instead, if anything.
};

class NaiveJudge {
 public:
  struct Options {
    std::string folder;   // tests/cheats.
    std::string harness;  // The naive_harness program.
    std::string cache_dir;
    std::string device_id = "cpu";
    Target target;
  };
  static absl::StatusOr<NaiveJudge> Create(Options options);

  // An error is a failure of the infrastructure; a kernel that does not compile, crashes or hangs
  // is called wrong.
  absl::StatusOr<NaiveVerdict> Judge(const BankEntry& entry);

 private:
  NaiveJudge(Options options, std::shared_ptr<Toolchains> toolchains)
      : options_(std::move(options)), toolchains_(std::move(toolchains)) {}
  absl::StatusOr<NaiveVerdict> Preprocess(const BankEntry& entry);

  Options options_;
  std::shared_ptr<Toolchains> toolchains_;
};

}  // namespace fettle
