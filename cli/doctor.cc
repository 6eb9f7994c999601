// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <dlfcn.h>
#include <fmt/format.h>

#include "cli/aa.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/local.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "worker/device_reports.h"
#include "worker/sandbox.h"
#include "worker/toolchains.h"

namespace fettle {
namespace {

using nlohmann::json;

// A library found at run time, by the names that versions of it have, newest first.
struct Library {
  const char* what;
  std::array<const char*, 4> names;
  const char* remedy;
};

constexpr std::array<Library, 7> kLibraries = {{
    {"CUDA driver", {"libcuda.so.1"}, "install NVIDIA's driver"},
    {"NVRTC (compiles for sm_*)",
     {"libnvrtc.so.13", "libnvrtc.so.12"},
     "install CUDA 12 or 13, or its libnvrtc alone"},
    {"NVML (NVIDIA clocks and power)", {"libnvidia-ml.so.1"}, "comes with NVIDIA's driver"},
    {"HIP runtime",
     {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"},
     "install ROCm 5, 6 or 7"},
    {"hiprtc (compiles for gfx*)",
     {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5"},
     "install ROCm 5, 6 or 7"},
    {"amd_smi (AMD clocks and power)",
     {"libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so"},
     "install ROCm's amd-smi-lib"},
    {"ROCm SMI (older AMD machines)",
     {"librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5"},
     "install ROCm's rocm-smi-lib"},
}};

// The first name that loads; empty when none does.
std::string FindLibrary(const Library& library) {
  for (const char* name : library.names) {
    if (name == nullptr) continue;
    // Left loaded: some of these libraries do not survive being unloaded.
    if (::dlopen(name, RTLD_NOW | RTLD_LOCAL) != nullptr) return name;
  }
  return "";
}

json DeviceJson(const DeviceInfo& device) {
  return {{"id", device.id},
          {"model", device.model},
          {"driver", device.driver},
          {"target", device.target.name},
          {"emulated", device.emulated},
          {"partition", device.partition},
          {"memory_bytes", device.memory_bytes}};
}

class DoctorCommand final : public Subcommand {
 public:
  std::string name() const override { return "doctor"; }
  std::string summary() const override {
    return "list what this machine offers and what is missing";
  }
  std::string details() const override {
    return "Exit code: 0 kernels can be optimized here, 3 something needed is missing.";
  }
  void Declare(FlagSet& flags) override {
    flags.Flag("--ceilings", "", &ceilings_,
               "measure what each device's memory and matrix units reach (about a second each)");
    flags.Flag("--json", "", &json_, "print JSON");
    flags.Flag("--aa", "", &aa_,
               "compare a kernel with itself: how often would it be called faster?");
    flags.Flag("--candidates", "N", &candidates_, "of --aa (default 20)");
    flags.Flag("--target", "T", &target_, "of --aa (default auto: the best device found)");
    local_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    if (aa_) return RunAa(context);
    json report = {{"version", FettleVersion()}};
    const absl::StatusOr<LocalLab> lab = LocalLab::Open(local_);
    report["runner"] = lab.ok() ? "found" : std::string(lab.status().message());
    report["devices"] = json::array();
    report["compilers"] = json::array();
    if (lab.ok()) {
      for (const DeviceInfo& device : lab->runner->devices()) {
        json described = DeviceJson(device);
        const json aa = KeptAa(AaFile(local_.ToOptions().cache_dir, device));
        if (aa.is_object()) described["aa"] = AaText(aa);
        if (ceilings_) {
          const auto ceilings = lab->runner->CeilingsOf(device.id, context.stop);
          described["ceilings"] = ceilings.ok()
                                      ? *ceilings
                                      : json{{"missing", std::string(ceilings.status().message())}};
        }
        report["devices"].push_back(std::move(described));
      }
    }
    // GPU compilers need no GPU: they are looked for on every machine.
    const Toolchains toolchains = Toolchains::Find(local_.ToOptions().cache_dir, /*gpu=*/true);
    report["compilers"] = toolchains.Describe();
    report["compilers_missing"] = toolchains.missing();
    report["libraries"] = json::array();
    for (const Library& library : kLibraries) {
      const std::string found = FindLibrary(library);
      report["libraries"].push_back({{"what", library.what},
                                     {"found", found},
                                     {"remedy", found.empty() ? library.remedy : ""}});
    }
    const SandboxLevel& sandbox = sandbox_level();
    report["sandbox"] = {{"level", sandbox.name()}, {"missing", sandbox.missing}};
    if (json_) {
      context.terminal.Print(report.dump(2, ' ', false, kReplaceInvalid));
    } else {
      PrintText(context.terminal, report);
    }
    const bool able = lab.ok() && !report["devices"].empty() && !report["compilers"].empty();
    return able ? ExitCode::kOk : ExitCode::kUnavailable;
  }

 private:
  absl::StatusOr<ExitCode> RunAa(Context& context) {
    if (candidates_ < 1) return absl::InvalidArgumentError("--candidates: write 1 or more");
    FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(local_));
    FETTLE_ASSIGN_OR_RETURN(const json kept, MeasureAa(context, lab,
                                                       {.candidates = candidates_,
                                                        .target = target_,
                                                        .folder = local_.ToOptions().cache_dir}));
    if (json_) {
      context.terminal.Print(kept.dump(2, ' ', false, kReplaceInvalid));
    } else {
      context.terminal.PrintFolded(Printable(AaText(kept)));
    }
    return NumberOf(kept, "false_wins") > 0 ? ExitCode::kNo : ExitCode::kOk;
  }

  static void PrintText(Terminal& terminal, const json& report) {
    const int width = terminal.width();
    terminal.Print(fmt::format("fettle {}", TextOf(report, "version")));
    if (TextOf(report, "runner") != "found") {
      terminal.PrintFolded(Printable("runner: " + TextOf(report, "runner")));
    }
    Table devices({{"DEVICE"}, {"TARGET"}, {"MODEL"}, {"DRIVER"}, {"MEMORY", true}});
    for (const json& device : report["devices"]) {
      devices.Row({TextOf(device, "id"), TextOf(device, "target"),
                   Printable(TextOf(device, "model") + (TextOf(device, "partition").empty()
                                                            ? ""
                                                            : " " + TextOf(device, "partition"))),
                   Printable(TextOf(device, "driver")),
                   FormatBytes(NumberOf(device, "memory_bytes"))});
    }
    terminal.Raw(devices.empty() ? "no devices\n" : devices.Render(width));
    for (const json& device : report["devices"]) {
      if (!TextOf(device, "aa").empty()) {
        terminal.PrintFolded(Printable(TextOf(device, "aa")));
      }
    }
    terminal.Raw(CeilingsText(report["devices"], width));
    Table compilers({{"COMPILER"}, {"IDENTITY"}, {"TARGETS"}});
    for (const json& compiler : report["compilers"]) {
      std::string targets;
      for (const json& target : MemberOf(compiler, "targets")) {
        if (target.is_string()) targets += (targets.empty() ? "" : " ") + target.get<std::string>();
      }
      compilers.Row({TextOf(compiler, "name"), Printable(TextOf(compiler, "identity")), targets});
    }
    terminal.Raw("\n");
    terminal.Raw(compilers.empty() ? "no compilers: install g++ (apt-get install g++)\n"
                                   : compilers.Render(width));
    for (const json& missing : MemberOf(report, "compilers_missing")) {
      if (!missing.is_string()) continue;
      terminal.PrintFolded(Printable("missing: " + missing.get<std::string>()));
    }
    Table libraries({{"LIBRARY"}, {"FOUND"}, {"TO GET IT"}});
    for (const json& library : report["libraries"]) {
      libraries.Row({TextOf(library, "what"),
                     TextOf(library, "found").empty() ? "missing" : TextOf(library, "found"),
                     TextOf(library, "remedy")});
    }
    terminal.Raw("\n" + libraries.Render(width));
    const json& sandbox = report["sandbox"];
    terminal.Print(fmt::format("\nsandbox: {}", TextOf(sandbox, "level")));
    if (!TextOf(sandbox, "missing").empty()) {
      terminal.PrintFolded(Printable("  missing: " + TextOf(sandbox, "missing")));
    }
  }

  // Nothing where nothing was measured.
  static std::string CeilingsText(const json& devices, int width) {
    Table table({{"CEILINGS"},
                 {"MEMORY", true},
                 {"CACHED", true},
                 {"16-BIT MATRIX", true},
                 {"8-BIT MATRIX", true}});
    std::string missing;
    for (const json& device : devices) {
      const json& ceilings = MemberOf(device, "ceilings");
      if (!ceilings.is_object()) continue;
      if (const std::string why = TextOf(ceilings, "missing"); !why.empty()) {
        missing += Folded(Printable(why), width) + "\n";
        continue;
      }
      const auto rate = [&ceilings](const char* key, const char* unit, double scale) {
        const double value = NumberOf(ceilings, key);
        return value > 0 ? fmt::format("{:.1f} {}", value / scale, unit) : "unknown";
      };
      table.Row({TextOf(device, "id"), rate("bytes_per_s", "GB/s", 1e9),
                 rate("cached_bytes_per_s", "GB/s", 1e9), rate("flops_per_s", "TFLOP/s", 1e12),
                 rate("flops8_per_s", "TFLOP/s", 1e12)});
    }
    return (table.empty() ? "" : "\n" + table.Render(width)) + missing;
  }

  bool ceilings_ = false;
  bool json_ = false, aa_ = false;
  std::int64_t candidates_ = 20;
  std::string target_ = "auto";
  LocalFlags local_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeDoctorCommand() { return std::make_unique<DoctorCommand>(); }

}  // namespace fettle
