// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/bound.h"
#include "core/task.h"
#include "verifier/expected.h"
#include "verifier/inputs.h"
#include "verifier/reference_store.h"

namespace fettle {

// A process that serves ServeReference on the other end of a socket. Destroying it kills it.
class ReferenceProcess {
 public:
  virtual ~ReferenceProcess() = default;
  virtual int channel() const = 0;
  // Waits briefly for the end after the channel closed: "SIGSEGV (segmentation fault)", "exit code
  // 1", "still running".
  virtual std::string Ending() = 0;
};
using StartReference = std::function<absl::StatusOr<std::unique_ptr<ReferenceProcess>>()>;

// Starts `program --reference 3` without a sandbox, its socket as descriptor 3; for tests and
// tools. The worker wraps its own sandbox around the same program instead.
StartReference PlainReferenceStarter(std::string program);

// What to run, taken from a task.
struct ReferenceSource {
  struct Function {
    std::string file, function;
    std::vector<std::string> outputs;  // Checkers: the outputs it judges.
  };
  std::string task_digest;
  std::string kind = "cxx";  // "cxx" or "npy".
  Function reference;
  std::vector<Function> checkers;
  // "npy": one file name per output argument, in signature order; {case} stands for the case's
  // label with _ for /.
  std::vector<std::string> stored;
  std::map<std::string, std::string> files;  // The task's files; sources may include them.
};
ReferenceSource ReferenceSourceOf(const Task& task);

struct ReferenceOptions {
  StartReference start;
  std::string cache_dir;  // Compiled references and results; empty: memory only.
  std::string compiler = "g++";
  std::chrono::seconds call_limit{120};
  // Of all compared outputs of a case together; larger ones are sampled by rows (ChooseRows).
  std::int64_t max_elements = std::int64_t{1} << 22;
  // 0: an eighth of the machine's memory, between 256 MiB and 4 GiB.
  std::int64_t memory_cache_bytes = 0;
  std::int64_t disk_cache_bytes = std::int64_t{2} << 30;
  // Of what inputs hold; results on disk are of the same one only.
  std::string inputs = InputsFingerprint();
  int processes = 1;  // At most so many at once; one starts when there is something to do for it.
};

// The verdict of a custom checker.
struct CheckerResult {
  double worst = 0;  // NaN: the checker set nothing.
  double mean_square = 0;
  std::int64_t output = -1, element = -1;
  std::string message;
};

// The task's reference and checkers, compiled once and run in processes of their own. Thread-safe:
// calls share ReferenceOptions::processes processes and wait for one; what several ask for at once
// is computed once.
//
// Errors of every call: kFailedPrecondition when the task's own code is at fault (it does not
// compile, crashes, hangs, or leaves results unset: the message says which and where), kUnavailable
// when no process can be started or the compiler is missing.
class Reference {
 public:
  static absl::StatusOr<std::unique_ptr<Reference>> Create(ReferenceSource source,
                                                           ReferenceOptions options);
  ~Reference();

  // Expected outputs of a case for these inputs. Outputs judged by a checker alone are left out.
  // `ahead`: nobody waits for it yet, so it leaves one process to those who do, where there are
  // several.
  absl::StatusOr<std::shared_ptr<const Expected>> Evaluate(const BoundCase& bound_case,
                                                           const InputSpec& spec,
                                                           bool ahead = false);
  // Runs checker `checker` of the source on a candidate's dense outputs (all outputs of the case,
  // in case order, as in RunObservation).
  absl::StatusOr<CheckerResult> Check(const BoundCase& bound_case, const InputSpec& spec,
                                      std::size_t checker,
                                      const std::vector<std::vector<std::uint8_t>>& outputs);
  // `work: {from: reference}`: least bytes and flops of the case.
  struct WorkFigures {
    double bytes = 0, flops = 0;
  };
  absl::StatusOr<WorkFigures> Work(const BoundCase& bound_case, const InputSpec& spec);

  const ReferenceSource& source() const { return source_; }
  int processes() const { return options_.processes; }
  std::int64_t memory_cache_bytes() const { return options_.memory_cache_bytes; }

 private:
  Reference(ReferenceSource source, ReferenceOptions options);
  absl::Status Build();
  // A process and what it holds.
  struct Seat {
    std::unique_ptr<ReferenceProcess> process;
    std::string prepared;  // Key of the case that it holds.
    std::string place;     // "case checked/2", for messages.
  };
  // Gives the seat back when destroyed.
  using SeatHold = std::unique_ptr<Seat, std::function<void(Seat*)>>;
  // A free seat, one that holds `key` where there is one; waits.
  SeatHold TakeSeat(const std::string& key);
  absl::Status EnsureProcess(Seat& seat);
  absl::StatusOr<nlohmann::json> Call(Seat& seat, const nlohmann::json& request,
                                      const std::vector<std::span<const std::uint8_t>>& bytes,
                                      std::vector<std::uint8_t>* reply_bytes);
  absl::Status PrepareCase(Seat& seat, const std::string& key, const BoundCase& bound_case,
                           const InputSpec& spec);
  absl::StatusOr<Expected> EvaluateCxx(const std::string& key, const BoundCase& bound_case,
                                       const InputSpec& spec);
  absl::StatusOr<Expected> EvaluateStored(const BoundCase& bound_case);
  absl::StatusOr<std::shared_ptr<const Expected>> Compute(const std::string& key,
                                                          const BoundCase& bound_case,
                                                          const InputSpec& spec);
  // With mutex_ held.
  void Remember(const std::string& key, std::shared_ptr<const Expected> expected);

  ReferenceSource source_;
  ReferenceOptions options_;
  ReferenceStore store_;
  std::vector<std::string> libraries_;  // Shared objects: the reference, then the checkers.

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Seat>> seats_;  // All; guarded by mutex_, as is what follows.
  std::vector<Seat*> free_;
  std::set<std::string> computing_;  // Keys.
  int ahead_ = 0;                    // Of those, that nobody waits for.
  using Entry = std::pair<std::string, std::shared_ptr<const Expected>>;
  std::list<Entry> recent_;  // Most recently used first.
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  std::int64_t cached_bytes_ = 0;
};

// The entries of `files` that the case's fills name.
std::map<std::string, std::string> FillFiles(const BoundCase& bound_case,
                                             const std::map<std::string, std::string>& files);

// Rows of the output with index `output` to compare where the case's compared outputs together have
// more than `max_elements`: the first and last, and rows drawn by the inputs' `seed`; ascending.
// Small outputs are compared whole, and large ones share what those leave. Empty: all of them.
std::vector<std::int64_t> ChooseRows(const BoundCase& bound_case, std::size_t output,
                                     std::int64_t max_elements, std::uint64_t seed);

}  // namespace fettle
