// SPDX-License-Identifier: Apache-2.0
// The sequential rule: bags in order, then the last offset. Results are exact.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "fettle_reference.h"

namespace {

void Fill(fettle_ref* ref, const char* name, const std::vector<std::int64_t>& values) {
  fettle_result& result = fettle_output(ref, name);
  for (std::int64_t i = 0; i < fettle_row_count(result); ++i) {
    result.values[i] =
        static_cast<double>(values[static_cast<std::size_t>(fettle_row(result, i))]);
  }
}

std::vector<std::int64_t> Copy(const fettle_tensor& tensor) {
  return {tensor.integers, tensor.integers + tensor.count};
}

}  // namespace

extern "C" void bounds_check_ref(fettle_ref* ref) {
  const std::int64_t tables = fettle_size(ref, "tables"), batch = fettle_size(ref, "batch");
  const bool counts = fettle_size(ref, "mode") == 1;
  const std::int64_t* rows = fettle_input(ref, "rows_per_table").integers;
  std::vector<std::int64_t> indices = Copy(fettle_input(ref, "indices"));
  std::vector<std::int64_t> offsets = Copy(fettle_input(ref, "offsets"));
  const auto count = static_cast<std::int64_t>(indices.size());
  std::int64_t warnings = 0;
  for (std::int64_t bag = 0; bag < tables * batch; ++bag) {
    std::int64_t& start = offsets[static_cast<std::size_t>(bag)];
    std::int64_t& end = offsets[static_cast<std::size_t>(bag) + 1];
    if (start < 0 || start > end || end > count) {
      ++warnings;
      start = std::clamp<std::int64_t>(start, 0, count);
      end = std::max(start, std::min(end, count));
    }
    for (std::int64_t i = start; i < end; ++i) {
      std::int64_t& index = indices[static_cast<std::size_t>(i)];
      if (index == -1 || (index >= 0 && index < rows[bag / batch])) continue;
      index = 0;
      ++warnings;
    }
  }
  if (tables * batch > 0 && offsets.back() != count) {
    offsets.back() = count;
    ++warnings;
  }
  Fill(ref, "indices", indices);
  Fill(ref, "offsets", offsets);
  Fill(ref, "warning", {counts ? warnings : 0});
}
