// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fettle {

// What the reference says about one output of a case.
struct ExpectedOutput {
  std::string name;
  std::int64_t tensor = 0;  // Index into the case's tensors.
  std::int64_t row_elements = 1;
  std::vector<std::int64_t> rows;         // Sampled rows, ascending; empty: all of them.
  std::vector<double> values;             // Rows x row_elements; empty where `bytes` is filled.
  std::vector<double> magnitude, length;  // As values, or empty where the reference gives none;
                                          // one length where all are the same.
  std::vector<std::uint8_t> bytes;        // kExactBits with raw bytes: dense bytes of the rows.
};

// All outputs of a case (out and inout tensors, in case order).
struct Expected {
  std::vector<ExpectedOutput> outputs;
  std::int64_t bytes() const {
    std::size_t total = 0;
    for (const ExpectedOutput& output : outputs) {
      total += 8 * (output.values.size() + output.magnitude.size() + output.length.size() +
                    output.rows.size()) +
               output.bytes.size();
    }
    return static_cast<std::int64_t>(total);
  }
};

}  // namespace fettle
