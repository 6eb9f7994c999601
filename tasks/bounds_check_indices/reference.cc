// SPDX-License-Identifier: Apache-2.0
// Bags in order: -1 is a pruned row and stays; any other index outside its table becomes 0.
#include <cstdint>
#include <vector>

#include "fettle_reference.h"

namespace {

void Fill(fettle_ref* ref, const char* name, const std::vector<std::int64_t>& values) {
  fettle_result& result = fettle_output(ref, name);
  for (std::int64_t i = 0; i < fettle_row_count(result); ++i) {
    result.values[i] = static_cast<double>(values[static_cast<std::size_t>(fettle_row(result, i))]);
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
  const std::int64_t* offsets = fettle_input(ref, "offsets").integers;
  std::int64_t warnings = 0;
  for (std::int64_t bag = 0; bag < tables * batch; ++bag) {
    for (std::int64_t i = offsets[bag]; i < offsets[bag + 1]; ++i) {
      std::int64_t& index = indices[static_cast<std::size_t>(i)];
      if (index == -1 || (index >= 0 && index < rows[bag / batch])) continue;
      index = 0;
      ++warnings;
    }
  }
  Fill(ref, "indices", indices);
  Fill(ref, "warning", {counts ? warnings : 0});
}
