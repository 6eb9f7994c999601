// SPDX-License-Identifier: Apache-2.0
#include "exporter/ptx.h"

#include <algorithm>

namespace fettle {
namespace {

// The next word, without the blanks before it; empty at the end of the line.
std::string_view Word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
  const std::size_t end = std::min(line.find_first_of(" \t\r(,;", begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

}  // namespace

absl::StatusOr<PtxFacts> ReadPtx(std::string_view text) {
  PtxFacts facts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::string_view word = Word(line);
    if (word == ".version" && facts.version.empty()) facts.version = Word(line);
    if (word == ".target" && facts.target.empty()) facts.target = Word(line);
    if (word == ".visible" || word == ".weak") word = Word(line);
    if (word == ".entry") {
      const std::string_view name = Word(line);
      if (!name.empty()) facts.kernels.emplace(name);
    }
  }
  if (facts.version.empty() || facts.target.empty()) {
    return absl::InvalidArgumentError("read PTX: no .version and .target");
  }
  if (facts.kernels.empty()) return absl::InvalidArgumentError("read PTX: no kernel");
  return facts;
}

}  // namespace fettle
