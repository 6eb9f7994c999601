// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "core/evidence.h"
#include "device/runner_session.h"
#include "verifier/judgement_cache.h"
#include "verifier/output_judge.h"
#include "verifier/reference.h"

namespace fettle {

// One case with the kernels to run on it; modules are loaded in the session that Verify is given.
struct CaseUnderTest {
  BoundCase bound_case;
  bool supported = true;  // False: outside `requires`; reported, not run.
  RunnableKernel kernel;
  // The trusted baseline, for the error budget and to tell which input sets an honest kernel can
  // meet. Without it both are left out.
  std::optional<RunnableKernel> baseline;
  std::string baseline_digest;  // Names its kernel in VerifyOptions::judged; empty: unknown.
};

struct VerifyOptions {
  std::uint64_t seed = 0;       // Everything random below comes from it.
  int input_sets_per_case = 3;  // Beside the declared fills; on cases that are not large.
  std::int64_t large_elements = std::int64_t{1} << 22;  // Of all tensors together.
  std::chrono::nanoseconds launch_limit = std::chrono::seconds(10);
  std::map<std::string, std::string> files;   // The task's, for fills.
  std::function<void(std::string)> progress;  // "verifying checked/2"; may be empty.
  // Where judgements are kept from one Verify to the next with the same seed; may be null. Used
  // where candidate code cannot reach the digests, so not on the cpu. Must outlive the Verify.
  JudgementCache* judged = nullptr;
  // One further set on each case with more than `large_elements`, drawn by the seed, and equal
  // integers; on others the sets that mean something else for each dtype. For confirmations: the
  // reference takes a while there.
  bool sets_on_large = false;
  // Declared inputs over the two patterns of poison, and nothing else: drops what is plainly wrong
  // before it is timed. Proves nothing.
  bool first_look = false;
  std::stop_token stop;
};

// Proves a kernel right on a list of cases (integrity rules 2.2 to 2.7): two poison patterns, guard
// bands, unchanged inputs, repeats bit by bit, the class masks and error bound, the error budget, a
// change of inputs in place, other addresses and page ends, other input sets, rotated case order.
// Stops at the first failure. Not thread-safe.
class Verifier {
 public:
  // Both must outlive this object.
  Verifier(RunnerSession& session, Reference& reference) : session_(session), judge_(reference) {}

  // The candidate's failure is in the report: INCORRECT, LAUNCH_ERROR, CRASHED or TIMEOUT with a
  // stable reason code. After CRASHED and TIMEOUT the session is dead. Held-out cases appear as
  // "held_out" without sizes, and their failure as its class only.
  //
  // Errors (no verdict): those of Reference, kCancelled, kUnavailable, kResourceExhausted, and
  // kFailedPrecondition when the baseline itself crashes.
  absl::StatusOr<VerificationReport> Verify(const std::vector<CaseUnderTest>& cases,
                                            const VerifyOptions& options);

  // Runs the cases on a check build (cpu, instrumented) in this object's session and adds what it
  // found to `report`: findings that are errors, or a wrong output, fail it with reason
  // "check_mode". Does nothing when the report has failed already. `label`: "warp 32", "wave 64".
  absl::Status CheckMode(const std::vector<CaseUnderTest>& cases, const std::string& label,
                         const VerifyOptions& options, VerificationReport* report);

 private:
  struct Failure {
    Verdict verdict = Verdict::kIncorrect;
    std::string reason_code, message;
    nlohmann::json evidence = nlohmann::json::object();
  };
  using Outcome = absl::StatusOr<std::optional<Failure>>;  // Nothing: passed.
  struct Pass {                                            // What later checks compare with.
    InputSpec spec;
    std::vector<std::string> digests;
  };

  Outcome CheckCase(const CaseUnderTest& one, std::size_t index, CaseReport* report, Pass* pass);
  Outcome RunOverPoisons(const CaseUnderTest& one, const InputSpec& spec, bool want_outputs,
                         RunObservation* a, RunObservation* b);
  Outcome TwoPoisons(const CaseUnderTest& one, const InputSpec& spec, CaseReport* report,
                     Pass* pass);
  Outcome Budget(const CaseUnderTest& one, const InputSpec& spec, const Judgement& candidate,
                 CaseReport* report);
  Outcome InPlace(const CaseUnderTest& one, const InputSpec& spec, CaseReport* report);
  Outcome ChangeInPlace(const CaseUnderTest& one, const InputSpec& changed);
  // `known`: digests of the outputs on these inputs that were judged right.
  Outcome Placements(const CaseUnderTest& one, const InputSpec& spec,
                     const std::vector<std::string>& known, CaseReport* report);
  Outcome InputSets(const CaseUnderTest& one, std::size_t index, CaseReport* report);
  absl::StatusOr<bool> RunInputSet(const CaseUnderTest& one, std::size_t index, InputSet set,
                                   CaseReport* report);
  Outcome ExactIntegers(const CaseUnderTest& one, std::size_t index, CaseReport* report);
  Outcome RemainingSets(const std::vector<CaseUnderTest>& cases, std::vector<CaseReport>* reports,
                        std::size_t* failed_case);
  Outcome RotatedOrder(const std::vector<CaseUnderTest>& cases, const std::vector<Pass>& passes,
                       std::vector<CaseReport>* reports, std::size_t* failed_case);

  // One call: device errors become failures, as do changed inputs, guards and padding.
  // `*observation` is set when nothing failed.
  Outcome Run(const RunRequest& request, RunObservation* observation);
  // Run, and judge its outputs.
  Outcome RunAndJudge(const RunRequest& request, CompareMode mode, RunObservation* observation,
                      Judgement* judgement);
  // The baseline's judgement on these inputs; nothing when it has none or fails.
  absl::StatusOr<std::optional<Judgement>> Baseline(const CaseUnderTest& one,
                                                    const InputSpec& spec);
  // Judges what the last call left on the device, given its digests.
  absl::StatusOr<Judgement> JudgeLeft(const BoundCase& bound_case, const InputSpec& spec,
                                      CompareMode mode, const std::vector<std::string>& digests);
  // Whether outputs stay on the device until they are wanted.
  bool leaves_outputs() const { return session_.device().target.vendor != Vendor::kCpu; }
  RunRequest Request(const CaseUnderTest& one, const InputSpec& spec) const;
  bool IsLarge(const BoundCase& bound_case) const;
  VerdictRecord Record(const Failure& failure, const BoundCase& bound_case,
                       const std::vector<CaseUnderTest>& cases,
                       const std::vector<CaseReport>& reports) const;

  RunnerSession& session_;
  OutputJudge judge_;
  VerifyOptions options_;
  std::vector<std::string> warnings_;
  std::size_t next_set_ = 0;  // Whose turn it is.
  std::optional<Failure> set_failure_;
};

// Inputs on which Verify will judge these cases, each with its case's number in the list: what a
// reference can compute before the device is free. Unsupported cases take none. Input sets that the
// baseline turns out not to meet are counted as met, so that others may be left to be computed.
std::vector<std::pair<std::size_t, InputSpec>> SpecsAhead(const std::vector<BoundCase>& cases,
                                                          const std::vector<bool>& supported,
                                                          const VerifyOptions& options);

// Removes what would give away a held-out case: label number, sizes, indices, values.
void Scrub(CaseReport* report);

}  // namespace fettle
