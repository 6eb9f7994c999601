// SPDX-License-Identifier: Apache-2.0
#include "worker/toolchains.h"

#include <fmt/format.h>

#include "compiler/cpu_compiler.h"
#include "compiler/disassembler.h"
#include "compiler/facts/code_facts.h"
#include "compiler/gpu/gpu_compilers.h"
#include "core/status_macros.h"
#include "core/target.h"

namespace fettle {
namespace {

// The targets that Describe asks the compilers about.
constexpr const char* kTargets[] = {"cpu",        "sm_80",      "sm_86",       "sm_89",  "sm_90",
                                    "sm_90a",     "sm_100",     "sm_100a",     "sm_120", "sm_120a",
                                    "compute_80", "compute_90", "compute_100", "gfx90a", "gfx942",
                                    "gfx950",     "gfx1100",    "gfx1201"};

}  // namespace

void Toolchains::Add(std::unique_ptr<KernelCompiler> compiler) {
  if (cache_ == nullptr) {
    compilers_.push_back(std::move(compiler));
    return;
  }
  compilers_.push_back(MakeCachingCompiler(*compiler, *cache_));
  inner_.push_back(std::move(compiler));
}

Toolchains Toolchains::Find(const std::string& cache_dir, bool gpu) {
  Toolchains found;
  absl::StatusOr<std::unique_ptr<CompileCache>> cache =
      CompileCache::Open({.folder = cache_dir + "/compiled"});
  if (cache.ok()) {
    found.cache_ = *std::move(cache);
  } else {
    found.missing_.push_back(
        fmt::format("compile cache: {}", std::string(cache.status().message())));
  }
  CpuCompilerOptions options;
  options.cache_dir = cache_dir + "/cpu";
  absl::StatusOr<std::unique_ptr<CpuCompiler>> cpu = CpuCompiler::Create(std::move(options));
  if (cpu.ok()) {
    found.Add(*std::move(cpu));
  } else {
    found.missing_.push_back(fmt::format("cpu: {}", std::string(cpu.status().message())));
  }
  if (!gpu) return found;
  for (GpuCompilerSearch& search : FindGpuCompilers({})) {
    if (search.compiler != nullptr) {
      found.Add(std::move(search.compiler));
    } else {
      found.missing_.push_back(
          fmt::format("{}: {}", search.name, std::string(search.status.message())));
    }
  }
  return found;
}

absl::StatusOr<KernelCompiler*> Toolchains::For(const Target& target) const {
  std::string have;
  for (const auto& compiler : compilers_) {
    if (compiler->Supports(target)) return compiler.get();
    have += fmt::format("{}{}", have.empty() ? "" : ", ", compiler->name());
  }
  std::string why;
  for (const std::string& reason : missing_) why += "; " + reason;
  return absl::UnavailableError(fmt::format("no compiler here supports target {} (found: {}){}",
                                            target.name, have.empty() ? "none" : have, why));
}

nlohmann::json Toolchains::Describe() const {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& compiler : compilers_) {
    nlohmann::json targets = nlohmann::json::array();
    for (const char* name : kTargets) {
      const absl::StatusOr<Target> target = FindTarget(name);
      if (target.ok() && compiler->Supports(*target)) targets.push_back(name);
    }
    list.push_back({{"name", std::string(compiler->name())},
                    {"identity", compiler->identity()},
                    {"targets", std::move(targets)}});
  }
  return list;
}

absl::StatusOr<Target> TargetOfObject(std::string_view code_object) {
  FETTLE_ASSIGN_OR_RETURN(const CodeFacts facts, ReadFacts(code_object, ""));
  if (auto known = FindTarget(facts.arch); known.ok()) return known;
  Target target;  // Of an architecture that is not built in; enough to disassemble it.
  target.name = facts.arch;
  target.vendor = facts.format == "cubin" ? Vendor::kNvidia : Vendor::kAmd;
  return target;
}

absl::StatusOr<nlohmann::json> DisassemblyOf(std::string_view code_object, const Target& target,
                                             std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(const Disassembly result,
                          Disassemble(code_object, target, std::move(stop)));
  return nlohmann::json{{"tool", result.tool}, {"text", result.text}};
}

absl::StatusOr<nlohmann::json> FactsOf(std::string_view code_object, const Target& target) {
  if (target.vendor == Vendor::kCpu) {
    return absl::InvalidArgumentError(
        "read facts: objects of the cpu target hold none; choose a GPU's target");
  }
  FETTLE_ASSIGN_OR_RETURN(const CodeFacts facts, ReadFacts(code_object, target.name));
  return ToJson(facts);
}

}  // namespace fettle
