// SPDX-License-Identifier: Apache-2.0
#include "server/ids.h"

#include <fmt/format.h>
#include <sys/random.h>

#include "core/digest.h"
#include "core/status_macros.h"

namespace fettle {

std::uint64_t RandomSeed() {
  std::uint64_t seed = 0;
  while (seed == 0) {
    FETTLE_CHECK(getrandom(&seed, sizeof(seed), 0) == sizeof(seed));
  }
  return seed;
}

std::string RandomId(std::string_view prefix) {
  return fmt::format("{}{:012x}", prefix, RandomSeed() >> 16);
}

std::string VariantId(std::string_view job_id, std::string_view candidate_digest) {
  return "v" + Sha256Hex(fmt::format("{}:{}", job_id, candidate_digest)).substr(0, 15);
}

std::string UnitId(std::string_view job_id, std::int64_t ordinal, UnitPurpose purpose) {
  switch (purpose) {
    case UnitPurpose::kRegister:
      return fmt::format("{}.register", job_id);
    case UnitPurpose::kEvaluate:
      return fmt::format("{}.{}.evaluate", job_id, ordinal);
    case UnitPurpose::kConfirm:
      return fmt::format("{}.{}.confirm", job_id, ordinal);
    case UnitPurpose::kConfirmAgain:
      return fmt::format("{}.{}.confirm2", job_id, ordinal);
  }
  return "";
}

}  // namespace fettle
