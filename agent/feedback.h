// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a proposer is told about an evaluation: the evidence, cut to what it can use. One form for
// the language model, for clients of the Proposals service and for `fettle propose`. Pure
// functions.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/verdict.h"
#include "core/work_unit.h"

namespace fettle {

// About 8,000 tokens of code and JSON at three bytes a token.
inline constexpr std::size_t kMaxReplyBytes = 24'000;

struct FeedbackInput {
  const VerdictRecord* verdict = nullptr;    // Null: nothing was wrong (a try), or not judged.
  double ratio = 0;                          // Over the denominator; 0: not measured.
  const UnitResult* evaluation = nullptr;    // Null: none.
  const UnitResult* confirmation = nullptr;  // Null: none.
};

// {verdict, ratio, compile: {diagnostics, facts, log}, correctness, speed, confirmation,
// counters, diagnosis}: what does not apply is absent. Secrets must have been removed before. Never
// longer than `max_bytes` as compact JSON: long texts and lists are cut, which the document says
// ("cut").
nlohmann::json MakeFeedback(const FeedbackInput& input, std::size_t max_bytes = kMaxReplyBytes);

// What to do after a verdict, in one sentence.
std::string NextAction(const VerdictRecord& verdict);

// The bytes of `text` from `cursor` (an offset as text; empty: the start) that fit a reply, and the
// cursor after them (empty: none left). Never ends within a character or, where there is one, a
// line.
struct TextPage {
  std::string text, next_cursor;
};
absl::StatusOr<TextPage> PageOf(std::string_view text, std::string_view cursor,
                                std::size_t max_bytes = 16'000);

}  // namespace fettle
