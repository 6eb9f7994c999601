// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/task_folder.h"
#include "core/skeleton.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

class InitCommand final : public Subcommand {
 public:
  std::string name() const override { return "init"; }
  std::string summary() const override { return "write a task folder from a kernel's signature"; }
  std::string details() const override {
    return "The places to complete are marked FILL IN; then run fettle check on the folder.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("FILE", &file_, "kernel source").completes = Completes::kFile;
    flags.Flag("--kernel", "NAME", &kernel_, "the kernel (default: the only one in the file)");
    flags.Flag("--target", "T", &target_, "architecture that the task is meant for (default cpu)");
    flags.Flag("--out", "DIR", &out_, "folder to write (default: the kernel's name)").completes =
        Completes::kFolder;
    flags.Flag("--json", "", &json_, "print JSON");
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_RETURN_IF_ERROR(FindTarget(target_).status());
    SkeletonRequest request;
    request.source_name = fs::path(file_).filename().string();
    FETTLE_ASSIGN_OR_RETURN(request.source, ReadFile(file_, 4 << 20));
    if (kernel_.empty()) {
      const std::vector<KernelSignature> kernels = FindKernels(request.source);
      if (kernels.size() != 1) {
        std::string names;
        for (const KernelSignature& kernel : kernels) names += " " + kernel.name;
        return absl::InvalidArgumentError(fmt::format(
            "read {}: {} kernels in it; name one with --kernel:{}", file_, kernels.size(), names));
      }
      kernel_ = kernels[0].name;
    }
    request.kernel = kernel_;
    FETTLE_ASSIGN_OR_RETURN(const TaskFiles files, MakeSkeleton(request));
    const std::string folder = out_.empty() ? kernel_ : out_;
    FETTLE_RETURN_IF_ERROR(Write(folder, files));
    Report(context.terminal, folder, files);
    return ExitCode::kOk;
  }

 private:
  static absl::Status Write(const std::string& folder, const TaskFiles& files) {
    std::error_code error;
    if (fs::exists(folder, error) && !fs::is_empty(folder, error)) {
      return absl::AlreadyExistsError(fmt::format(
          "write the task folder {}: something is there; name a new folder with --out", folder));
    }
    fs::create_directories(folder, error);
    if (error) {
      return absl::UnavailableError(
          fmt::format("write the task folder {}: {}", folder, error.message()));
    }
    for (const auto& [name, text] : files) {
      FETTLE_RETURN_IF_ERROR(WriteFile((fs::path(folder) / name).string(), text));
    }
    return absl::OkStatus();
  }

  void Report(Terminal& terminal, const std::string& folder, const TaskFiles& files) const {
    nlohmann::json places = nlohmann::json::array();
    for (const auto& [name, text] : files) {
      int line = 1;
      for (std::size_t at = 0; at < text.size(); ++line) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        if (text.substr(at, end - at).find("FILL IN") != std::string::npos) {
          places.push_back({{"file", name}, {"line", line}});
        }
        at = end + 1;
      }
    }
    if (json_) {
      terminal.Print(nlohmann::json{{"folder", folder}, {"fill_in", places}}.dump(2, ' ', false,
                                                                                  kReplaceInvalid));
      return;
    }
    terminal.Print(fmt::format("{}: written; to fill in:", folder));
    for (const nlohmann::json& place : places) {
      terminal.Print(
          fmt::format("  {}/{}:{}", folder, TextOf(place, "file"), place["line"].get<int>()));
    }
    terminal.Print(fmt::format("then: fettle check {} --target {}", folder, target_));
  }

  std::string file_, kernel_, out_;
  std::string target_ = "cpu";
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> MakeInitCommand() { return std::make_unique<InitCommand>(); }

}  // namespace fettle
