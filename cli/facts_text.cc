// SPDX-License-Identifier: Apache-2.0
#include "cli/facts_text.h"

#include <vector>

#include <fmt/format.h>

#include "cli/terminal.h"

namespace fettle {
namespace {

using nlohmann::json;

struct Shown {
  const char* key;
  const char* words;
};
constexpr Shown kShown[] = {{"registers", "registers"},
                            {"arch_vgprs", "VGPRs"},
                            {"accumulators", "AGPRs"},
                            {"sgprs", "SGPRs"},
                            {"vgpr_spills", "VGPR spills"},
                            {"sgpr_spills", "SGPR spills"},
                            {"local_bytes", "B local/thread"},
                            {"shared_bytes", "B shared/block"},
                            {"parameter_bytes", "B parameters"},
                            {"named_barriers", "named barriers"},
                            {"max_threads", "threads/block at most"}};

// `items` after `head`, broken before `width` columns.
std::string Wrapped(const std::string& head, const std::vector<std::string>& items, int width) {
  std::string text, line = head;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "");
    if (line.size() + 1 + item.size() > static_cast<std::size_t>(width) && line != head) {
      text += line + "\n";
      line = std::string(head.size(), ' ');
    }
    line += " " + item;
  }
  return items.empty() ? "" : text + line + "\n";
}

std::vector<std::string> Counts(const json& counts) {
  std::vector<std::string> items;
  for (const auto& [name, count] : counts.items()) {
    items.push_back(fmt::format("{} {}", count.get<std::int64_t>(), Printable(name)));
  }
  return items;
}

}  // namespace

std::string FactsText(const json& facts, int width) {
  std::string text = fmt::format("{} for {}\n", facts.value("format", ""), facts.value("arch", ""));
  for (const json& kernel : facts.value("kernels", json::array())) {
    text += Folded(Printable(kernel.value("name", "")), width) + "\n";
    std::vector<std::string> sizes;
    for (const Shown& shown : kShown) {
      if (!kernel.contains(shown.key)) continue;
      sizes.push_back(fmt::format("{} {}", kernel[shown.key].get<std::int64_t>(), shown.words));
    }
    text += Wrapped("  resources:", sizes, width);
    if (kernel.contains("occupancy")) {
      const json& occupancy = kernel["occupancy"];
      text +=
          Folded(fmt::format("  occupancy: {} of {} waves at {} threads a block, limited by {}\n",
                             occupancy.value("waves", 0), occupancy.value("max_waves", 0),
                             occupancy.value("threads", 0), occupancy.value("limit", "nothing")),
                 width);
    }
    text += Wrapped("  instructions:", Counts(kernel.value("instructions", json::object())), width);
    text += Wrapped("  matrix:", Counts(kernel.value("matrix", json::object())), width);
  }
  return text;
}

}  // namespace fettle
