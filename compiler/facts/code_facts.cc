// SPDX-License-Identifier: Apache-2.0
#include "compiler/facts/code_facts.h"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/facts/facts_readers.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

// "sm_90a" is compiled into an object that says 90.
bool SameArch(std::string_view arch, std::string_view target) {
  if (arch == target) return true;
  return target.starts_with("sm_") && !target.empty() &&
         (target.back() == 'a' || target.back() == 'f') &&
         target.substr(0, target.size() - 1) == arch;
}

nlohmann::json ToJson(const KernelFacts& kernel) {
  nlohmann::json json{{"name", kernel.name}};
  const auto add = [&](const char* key, std::int64_t value) {
    if (value >= 0) json[key] = value;
  };
  add("registers", kernel.registers);
  add("arch_vgprs", kernel.arch_vgprs);
  add("accumulators", kernel.accumulators);
  add("sgprs", kernel.sgprs);
  add("vgpr_spills", kernel.vgpr_spills);
  add("sgpr_spills", kernel.sgpr_spills);
  add("local_bytes", kernel.local_bytes);
  add("shared_bytes", kernel.shared_bytes);
  add("parameter_bytes", kernel.parameter_bytes);
  add("named_barriers", kernel.named_barriers);
  add("max_threads", kernel.max_threads);
  if (kernel.occupancy_waves >= 0) {
    json["occupancy"] = {{"waves", kernel.occupancy_waves},
                         {"max_waves", kernel.max_waves},
                         {"limit", kernel.occupancy_limit},
                         {"threads", kernel.occupancy_threads}};
  }
  if (!kernel.instructions.empty()) {
    json["instructions"] = kernel.instructions;
    json["matrix"] = kernel.matrix;
  }
  return json;
}

}  // namespace

const KernelFacts* CodeFacts::Find(std::string_view symbol) const {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const KernelFacts& k) { return k.name == symbol; });
  return found == kernels.end() ? nullptr : &*found;
}

absl::StatusOr<CodeFacts> ReadFacts(std::string_view bytes, std::string_view target) {
  FETTLE_ASSIGN_OR_RETURN(const ElfFile elf, ReadElf(AsBytes(bytes)));
  CodeFacts facts;
  if (elf.machine == kElfMachineAmdgpu) {
    FETTLE_ASSIGN_OR_RETURN(facts, ReadAmdFacts(elf));
  } else if (elf.machine == kElfMachineCuda) {
    FETTLE_ASSIGN_OR_RETURN(facts, ReadCubinFacts(elf));
  } else {
    return absl::InvalidArgumentError(fmt::format(
        "read facts: ELF machine {} is neither AMD's (224) nor NVIDIA's (190)", elf.machine));
  }
  facts.size_bytes = static_cast<std::int64_t>(bytes.size());
  if (!target.empty() && !SameArch(facts.arch, target)) {
    return absl::InvalidArgumentError(
        fmt::format("read facts: the object is for {}, expected {}", facts.arch, target));
  }
  std::sort(facts.kernels.begin(), facts.kernels.end(),
            [](const KernelFacts& a, const KernelFacts& b) { return a.name < b.name; });
  return facts;
}

nlohmann::json ToJson(const CodeFacts& facts) {
  nlohmann::json json{{"format", facts.format},
                      {"arch", facts.arch},
                      {"size_bytes", facts.size_bytes},
                      {"kernels", nlohmann::json::array()}};
  for (const KernelFacts& kernel : facts.kernels) json["kernels"].push_back(ToJson(kernel));
  return json;
}

}  // namespace fettle
