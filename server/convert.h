// SPDX-License-Identifier: Apache-2.0
#pragma once

// Rows of the store as messages, and page tokens.

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "fettle/v1/optimizer.pb.h"
#include "store/records.h"

namespace fettle {

v1::Job JobToProto(const JobRow& job, const std::map<std::string, std::int64_t>& verdicts);
v1::Candidate CandidateToProto(const CandidateRow& row);
v1::Variant VariantToProto(const VariantRow& row);

// Page size asked for, within the limits; 0 means the default. kInvalidArgument: negative.
absl::StatusOr<int> PageSize(int wanted);
// "(time, id)" of the last row of a page as an opaque token, and back. An empty token is the start.
std::string TimeToken(std::int64_t ns, const std::string& id);
absl::StatusOr<std::pair<std::int64_t, std::string>> ParseTimeToken(const std::string& token);
absl::StatusOr<std::int64_t> ParseOrdinalToken(const std::string& token);

}  // namespace fettle
