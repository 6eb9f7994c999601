// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fettle {

// The file of a stored output (Task::ReferenceSpec::files has one pattern per output argument, in
// the signature's order) for one case: "{case}" becomes the label with '/' as '_' ("timed_0"),
// "{member}" the member of a `pointers` output.
std::string StoredOutputPath(std::string_view pattern, std::string_view case_label,
                             std::int64_t member);

}  // namespace fettle
