// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fettle {

// 64 bits from the kernel's random source; never 0, which means "not set" where seeds are stored.
std::uint64_t RandomSeed();
// `prefix` followed by 12 random hex digits.
std::string RandomId(std::string_view prefix);
// Names a variant: the same candidate of the same job always gets the same id.
std::string VariantId(std::string_view job_id, std::string_view candidate_digest);

// kConfirmAgain: after a confirmation that left it open.
enum class UnitPurpose { kRegister, kEvaluate, kConfirm, kConfirmAgain };
std::string UnitId(std::string_view job_id, std::int64_t ordinal, UnitPurpose purpose);

}  // namespace fettle
