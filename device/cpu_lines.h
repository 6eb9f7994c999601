// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fettle {

struct SourcePlace {
  std::string file;
  int line = 0;  // 0: unknown.
};

// The line table of a module (DWARF 4 .debug_line). Damaged bytes give fewer places, never a fault.
class LineTable {
 public:
  explicit LineTable(std::string_view debug_line);
  // The place of the instruction at or before `address`.
  SourcePlace Find(std::uint64_t address) const;
  // File names in the order of the table.
  const std::vector<std::string>& files() const { return files_; }

 private:
  struct Row {
    std::uint64_t address;
    std::uint32_t file;
    int line;
    bool end;
  };
  void ReadUnit(std::string_view unit);

  std::vector<std::string> files_;
  std::vector<Row> rows_;  // By address.
};

}  // namespace fettle
