// SPDX-License-Identifier: Apache-2.0

// compute-sanitizer over a would-be winner. Its tools find what outputs do not show: reads outside
// a buffer, races in shared memory, barriers that not every thread reaches.

#include <algorithm>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/tensor_layout.h"
#include "judge/accept.h"
#include "worker/unit_job.h"
#include "worker/unit_stop.h"

namespace fettle {
namespace {

using Going = absl::StatusOr<bool>;

// Tools slow a kernel down by up to a hundred times, and start once for all cases.
constexpr std::int64_t kSanitizedElements = std::int64_t{1} << 18;
constexpr std::size_t kSanitizedCases = 8;

std::int64_t Elements(const BoundCase& bound_case) {
  std::int64_t elements = 0;
  for (const BoundTensor& tensor : bound_case.tensors) {
    if (!tensor.is_null) elements += tensor.elements();
  }
  return elements;
}

}  // namespace

// The largest of the small checked cases: more of them have several blocks and odd ends.
std::vector<BoundCase> UnitJob::SanitizedCases() const {
  std::vector<BoundCase> cases;
  for (const BoundCase& one : cases_) {
    const bool checked = one.set == CaseSet::kChecked && supported_.at(one.label);
    if (checked && Elements(one) > 0 && Elements(one) <= kSanitizedElements) cases.push_back(one);
  }
  std::stable_sort(cases.begin(), cases.end(), [](const BoundCase& a, const BoundCase& b) {
    return Elements(a) > Elements(b);
  });
  if (cases.size() > kSanitizedCases) cases.resize(kSanitizedCases);
  return cases;
}

Going UnitJob::SanitizeWinner() {
  if (!result_.verification) return true;
  // The cpu target has check mode instead.
  if (on_cpu() && !services_.lane->sanitizes_cpu()) return true;
  // The first confirmation of a job asks for the least, so nothing that is accepted is missed.
  const bool win =
      result_.measurement && judge::DecideConfirmation(*result_.measurement, /*k=*/1,
                                                       /*aa_spread=*/0, judge::AcceptanceRule())
                                     .record.verdict == Verdict::kWin;
  const std::vector<BoundCase> cases = SanitizedCases();
  std::vector<SanitizerFinding> findings;
  if (!win) {
    findings = NotSanitized("only would-be winners go under it");
  } else if (cases.empty()) {
    findings = NotSanitized("no checked case is small enough");
  } else {
    FETTLE_ASSIGN_OR_RETURN(const Lane::Hold hold,
                            services_.lane->Enter(LaneUse::kLarge, services_.stop, Haste()));
    Progress(fmt::format("sanitizing {} cases", cases.size()));
    std::vector<Replay> calls;
    for (const BoundCase& one : cases) {
      FETTLE_ASSIGN_OR_RETURN(calls.emplace_back(), ReplayOf(one));
    }
    const UnitStop limited(services_.stop, DeviceLeft());
    const auto start = std::chrono::steady_clock::now();
    findings = services_.lane->Sanitize(calls, limited.token());
    ChargeTool(start);
    if (limited.expired()) return NoDeviceTime();
    if (services_.stop.stop_requested()) {
      return absl::CancelledError("the unit was cancelled while it was sanitized");
    }
  }
  result_.verification->sanitizers = SanitizerWords(findings);
  std::optional<VerdictRecord> verdict = SanitizerVerdict(findings);
  if (!verdict) return true;
  result_.verification->passed = false;
  result_.verification->failure = *verdict;
  result_.verdict = *std::move(verdict);
  return false;
}

}  // namespace fettle
