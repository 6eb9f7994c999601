// SPDX-License-Identifier: Apache-2.0
#include "verifier/input_choice.h"

#include <algorithm>

#include "device/tensor_layout.h"
#include "verifier/random.h"
#include "verifier/value_sets.h"

namespace fettle {
namespace {

// Sets of floats that large cases take one of.
constexpr std::array kLargeSets = {InputSet::kScaleHuge, InputSet::kOffset, InputSet::kRowScales,
                                   InputSet::kNonFinite};
// Smaller cases hardly show what a set is about.
constexpr std::int64_t kTellingElements = 64;

}  // namespace

bool AnyNonFinite(const BoundCase& bound_case) {
  return std::any_of(bound_case.tensors.begin(), bound_case.tensors.end(),
                     [](const BoundTensor& tensor) {
                       return tensor.nonfinite && tensor.role != Role::kOut && !tensor.is_null;
                     });
}

bool AnyDrawnFloat(const BoundCase& bound_case) {
  return std::any_of(
      bound_case.tensors.begin(), bound_case.tensors.end(), [](const BoundTensor& tensor) {
        return tensor.role != Role::kOut && IsFloat(tensor.dtype) && tensor.elements() > 0 &&
               (tensor.fill.kind == Fill::Kind::kNormal ||
                tensor.fill.kind == Fill::Kind::kUniform);
      });
}

bool Changes(InputSet set, const BoundCase& bound_case) {
  if (set == InputSet::kNonFinite) return AnyNonFinite(bound_case);
  if (!IsIntegerSet(set)) return AnyDrawnFloat(bound_case);
  return std::any_of(
      bound_case.tensors.begin(), bound_case.tensors.end(),
      [](const BoundTensor& tensor) { return IsInteger(tensor.dtype) && CanFlip(tensor); });
}

InputSpec DeclaredSpec(const VerifyOptions& options, std::size_t index) {
  return {DeriveSeed(options.seed, "case", index)};
}

std::vector<InputSpec> ChangesInPlace(const BoundCase& bound_case, const InputSpec& spec,
                                      bool large) {
  const InputSpec everything{DeriveSeed(spec.seed, "in place"), spec.set};
  std::vector<std::int64_t> choices;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    if (CanFlip(bound_case.tensors[i])) choices.push_back(static_cast<std::int64_t>(i));
  }
  if (choices.empty()) return large ? std::vector{everything} : std::vector<InputSpec>();
  const auto below = [&](std::int64_t count, std::uint64_t turn) {
    return static_cast<std::int64_t>(
        RandomBelow(static_cast<std::uint64_t>(count), spec.seed, turn));
  };
  InputSpec flip = spec;
  flip.flip_tensor = choices[RandomBelow(choices.size(), spec.seed, 1)];
  const BoundTensor& tensor = bound_case.tensors[static_cast<std::size_t>(flip.flip_tensor)];
  flip.flip_element = below(tensor.elements(), 2);
  const std::vector<std::int64_t> outputs = OutputTensors(bound_case);
  if (!large) {  // A maximum shows the one only, a minimum the other.
    InputSpec other = flip;
    other.flip_tensor = choices[RandomBelow(choices.size(), spec.seed, 5)];
    const std::int64_t count =
        bound_case.tensors[static_cast<std::size_t>(other.flip_tensor)].elements();
    other.flip_element = below(count, 6);
    if ((other.flip_element - flip.flip_element) % 2 == 0) other.flip_element ^= 1;
    if (other.flip_element >= count) other.flip_element = std::max<std::int64_t>(0, count - 2);
    return {flip, other};
  }
  if (outputs.empty()) return {flip};
  const auto first = static_cast<std::size_t>(outputs[0]);
  const BoundTensor& output = bound_case.tensors[first];
  const std::vector<std::int64_t> rows =
      ChooseRows(bound_case, first, ReferenceOptions{}.max_elements, spec.seed);
  if (rows.empty()) return {flip};
  if (RowCount(tensor) != RowCount(output) || RowElements(tensor) == 0) return {flip, everything};
  const std::int64_t row =
      rows[static_cast<std::size_t>(below(static_cast<std::int64_t>(rows.size()), 3))];
  flip.flip_element = row * RowElements(tensor) + below(RowElements(tensor), 4);
  return {flip};
}

InputSpec ExactSpec(const VerifyOptions& options, std::size_t index) {
  return {DeriveSeed(options.seed, "exact", index), InputSet::kExactIntegers};
}

InputSpec SetSpec(const VerifyOptions& options, std::size_t index, InputSet set) {
  return {DeriveSeed(options.seed, InputSetName(set), index), set};
}

bool TakesSets(const BoundCase& bound_case, const VerifyOptions& options) {
  return ElementsOf(bound_case) <= options.large_elements &&
         std::any_of(kSetTurns.begin(), kSetTurns.end(),
                     [&](InputSet set) { return Changes(set, bound_case); });
}

std::vector<InputSet> SetsOfLarge(const BoundCase& bound_case, const VerifyOptions& options,
                                  std::size_t index) {
  if (!options.sets_on_large || ElementsOf(bound_case) <= options.large_elements) return {};
  std::vector<InputSet> choices, out;
  for (const InputSet set : kLargeSets) {
    if (Changes(set, bound_case)) choices.push_back(set);
  }
  if (!choices.empty()) {
    const std::uint64_t drawn = DeriveSeed(options.seed, "set of a large case", index);
    out.push_back(choices[drawn % choices.size()]);
  }
  // Where counters of few bits wrap, and everybody waits for one address.
  if (Changes(InputSet::kEqualIntegers, bound_case)) out.push_back(InputSet::kEqualIntegers);
  return out;
}

std::vector<InputSet> SetsOfDtypes(const BoundCase& bound_case, const VerifyOptions& options,
                                   const std::vector<InputSet>& taken) {
  std::vector<InputSet> out;
  for (const InputSet set : kSetsOfDtypes) {
    const bool again = std::find(taken.begin(), taken.end(), set) != taken.end();
    if (options.sets_on_large && Changes(set, bound_case) && !again) out.push_back(set);
  }
  return out;
}

bool Tells(const BoundCase& bound_case) { return ElementsOf(bound_case) >= kTellingElements; }

bool TakesRemainingSets(const BoundCase& one, const BoundCase* last, const VerifyOptions& options) {
  return TakesSets(one, options) && Tells(one) &&
         (last == nullptr || ElementsOf(one) > ElementsOf(*last));
}

std::vector<std::pair<std::size_t, InputSpec>> SpecsAhead(const std::vector<BoundCase>& cases,
                                                          const std::vector<bool>& supported,
                                                          const VerifyOptions& options) {
  std::vector<std::pair<std::size_t, InputSpec>> specs;
  std::size_t next_set = 0, last = cases.size();
  for (std::size_t index = 0; index < cases.size(); ++index) {
    const BoundCase& one = cases[index];
    if (!supported[index]) continue;
    const bool large = ElementsOf(one) > options.large_elements;
    const InputSpec declared = DeclaredSpec(options, index);
    specs.emplace_back(index, declared);
    for (const InputSpec& changed : ChangesInPlace(one, declared, large)) {
      specs.emplace_back(index, changed);
    }
    if (one.linear && AnyDrawnFloat(one)) specs.emplace_back(index, ExactSpec(options, index));
    for (const InputSet set : SetsOfLarge(one, options, index)) {
      specs.emplace_back(index, SetSpec(options, index, set));
    }
    if (!TakesSets(one, options)) continue;
    std::size_t turn = next_set;
    std::vector<InputSet> taken;
    for (std::size_t i = 0; i < kSetTurns.size(); ++i) {
      if (std::ssize(taken) >= options.input_sets_per_case) break;
      const InputSet set = kSetTurns[turn++ % kSetTurns.size()];
      if (Changes(set, one)) taken.push_back(set);
    }
    for (const InputSet set : taken) specs.emplace_back(index, SetSpec(options, index, set));
    if (!Tells(one)) continue;
    next_set = turn;
    if (TakesRemainingSets(one, last < cases.size() ? &cases[last] : nullptr, options))
      last = index;
    for (const InputSet set : SetsOfDtypes(one, options, taken)) {
      specs.emplace_back(index, SetSpec(options, index, set));
    }
    if (AnyNonFinite(one)) specs.emplace_back(index, SetSpec(options, index, InputSet::kNonFinite));
  }
  for (; last < cases.size() && next_set < kSetTurns.size(); ++next_set) {
    if (Changes(kSetTurns[next_set], cases[last]))
      specs.emplace_back(last, SetSpec(options, last, kSetTurns[next_set]));
  }
  return specs;
}

}  // namespace fettle
