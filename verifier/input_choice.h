// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which inputs a case is tried on. The verifier runs them, and SpecsAhead (verify.h) names them
// before a device is free; both ask here.

#include <array>
#include <cstddef>
#include <vector>

#include "verifier/verify.h"

namespace fettle {

// The order in which input sets take their turns.
inline constexpr std::array kSetTurns = {
    InputSet::kHeavyTail,     InputSet::kScaleHuge,       InputSet::kAllNegative,
    InputSet::kEqualIntegers, InputSet::kRowScales,       InputSet::kTies,
    InputSet::kScaleTiny,     InputSet::kExtremeIntegers, InputSet::kOneHot,
    InputSet::kSorted,        InputSet::kAllEqual,        InputSet::kSortedIntegers,
    InputSet::kCheckerboard,  InputSet::kScaleLarge,      InputSet::kReversed,
    InputSet::kFewIntegers,   InputSet::kScaleSmall,      InputSet::kOffset,
    InputSet::kLowRank,       InputSet::kEdgeValues,      InputSet::kLargeValues,
    InputSet::kAllZero};

bool AnyNonFinite(const BoundCase& bound_case);
// Whether some floating-point input is drawn.
bool AnyDrawnFloat(const BoundCase& bound_case);
// Whether a set changes anything: it is of integers, or of floats, that are drawn.
bool Changes(InputSet set, const BoundCase& bound_case);

InputSpec DeclaredSpec(const VerifyOptions& options, std::size_t index);
InputSpec ExactSpec(const VerifyOptions& options, std::size_t index);
InputSpec SetSpec(const VerifyOptions& options, std::size_t index, InputSet set);

// Changes to try at the same addresses: one element of one input, and of small cases another one
// the other way (FlipElement). Of large cases only some rows are
// computed by the reference, so there the element lies in one of them; where inputs and outputs
// have different rows, everything is changed too.
std::vector<InputSpec> ChangesInPlace(const BoundCase& bound_case, const InputSpec& spec,
                                      bool large);

// Whether a case is tried on other input sets than the declared one.
bool TakesSets(const BoundCase& bound_case, const VerifyOptions& options);
// The sets that a large case takes: one of floats, drawn by the seed, and that of equal integers,
// where they change anything.
std::vector<InputSet> SetsOfLarge(const BoundCase& bound_case, const VerifyOptions& options,
                                  std::size_t index);
// Sets that mean something else for each dtype: a confirmation tries them on every case that tells.
inline constexpr std::array kSetsOfDtypes = {InputSet::kLargeValues, InputSet::kEdgeValues};
// Those that are left of them on a case that has taken its turns.
std::vector<InputSet> SetsOfDtypes(const BoundCase& bound_case, const VerifyOptions& options,
                                   const std::vector<InputSet>& taken);
// Whether a case has enough elements to show what a set is about.
bool Tells(const BoundCase& bound_case);
// Which of two cases input sets are tried on that had no turn: the larger one, of those that tell.
// `last` is null at first.
bool TakesRemainingSets(const BoundCase& one, const BoundCase* last, const VerifyOptions& options);

}  // namespace fettle
