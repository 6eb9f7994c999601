// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/facts_text.h"
#include "cli/format.h"
#include "cli/local.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/source_flags.h"
#include "cli/task_folder.h"
#include "core/digest.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "worker/toolchains.h"

namespace fettle {
namespace {

using nlohmann::json;

json DiagnosticsJson(const CompileResult& result) {
  json list = json::array();
  for (const Diagnostic& diagnostic : result.diagnostics) {
    list.push_back({{"file", diagnostic.file},
                    {"line", diagnostic.line},
                    {"column", diagnostic.column},
                    {"severity", diagnostic.severity},
                    {"text", diagnostic.text}});
  }
  return list;
}

class CompileCommand final : public Subcommand {
 public:
  std::string name() const override { return "compile"; }
  std::string summary() const override { return "compile a kernel source and print diagnostics"; }
  std::string details() const override {
    return "Compiles the file's kernels; an instance of a template is named with --entry.\n"
           "Exit code: 0 accepted, 1 rejected.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("FILE", &file_, "kernel source").completes = Completes::kFile;
    source_.Declare(flags);
    flags.Flag("--check", "", &check_, "cpu: compile for check mode");
    flags.Flag("--out", "FILE", &out_, "write the code object").completes = Completes::kFile;
    flags.Flag("--cache", "DIR", &local_.cache, "compile cache (default ~/.cache/fettle)")
        .completes = Completes::kFolder;
    flags.Flag("--facts", "", &facts_,
               "GPU targets: print registers, spills, shared memory, occupancy and instructions");
    flags.Flag("--json", "", &json_, "print JSON");
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(CompileRequest request, source_.Request(file_));
    request.mode = check_ ? CompileMode::kCheck : CompileMode::kFast;
    const std::string cache = local_.ToOptions().cache_dir;
    if (!cache.empty()) FETTLE_RETURN_IF_ERROR(MakePrivateFolder(cache));
    const Toolchains toolchains = Toolchains::Find(cache, /*gpu=*/source_.target != "cpu");
    FETTLE_ASSIGN_OR_RETURN(KernelCompiler* const compiler, toolchains.For(request.target));
    context.terminal.Status(fmt::format("compiling {} for {}", file_, source_.target));
    FETTLE_ASSIGN_OR_RETURN(const CompileResult result, compiler->Compile(request, context.stop));
    context.terminal.Status("");
    if (result.accepted && !out_.empty()) {
      FETTLE_RETURN_IF_ERROR(WriteFile(out_, result.code_object));
    }
    json facts;
    if (facts_ && result.accepted) {
      FETTLE_ASSIGN_OR_RETURN(facts, FactsOf(result.code_object, request.target));
    }
    return Report(context.terminal, request, result, facts);
  }

 private:
  ExitCode Report(Terminal& terminal, const CompileRequest& request, const CompileResult& result,
                  const json& facts) const {
    const json diagnostics = DiagnosticsJson(result);
    if (json_) {
      json report{
          {"accepted", result.accepted},
          {"compiler", result.compiler},
          {"cache_hit", result.cache_hit},
          {"elapsed_ns", result.elapsed.count()},
          {"entries", request.entries},
          {"symbols", result.symbols},
          {"object_bytes", result.code_object.size()},
          {"object_sha256", result.accepted ? Sha256Hex(result.code_object) : std::string()},
          {"diagnostics", diagnostics},
          {"log", Printable(result.log)}};
      if (facts.is_object()) report["facts"] = facts;
      terminal.Print(report.dump(2, ' ', false, kReplaceInvalid));
      return result.accepted ? ExitCode::kOk : ExitCode::kNo;
    }
    terminal.Raw(DiagnosticsText(diagnostics));
    if (!result.accepted) {
      if (result.diagnostics.empty()) terminal.Print(Printable(result.log));
      terminal.PrintFolded(fmt::format("{}: rejected by {}", file_, result.compiler));
      return ExitCode::kNo;
    }
    terminal.PrintFolded(
        Printable(fmt::format("{}: accepted by {} in {}{}, {}", file_, result.compiler,
                              FormatDuration(static_cast<double>(result.elapsed.count())),
                              result.cache_hit ? " (cached)" : "",
                              FormatBytes(static_cast<double>(result.code_object.size())))));
    for (std::size_t i = 0; i < request.entries.size() && i < result.symbols.size(); ++i) {
      terminal.PrintFolded(
          Printable(fmt::format("  {} -> {}", request.entries[i], result.symbols[i])));
    }
    if (facts.is_object()) terminal.Raw(FactsText(facts, terminal.width()));
    return ExitCode::kOk;
  }

  std::string file_, out_;
  SourceFlags source_;
  bool check_ = false;
  bool facts_ = false;
  bool json_ = false;
  LocalFlags local_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeCompileCommand() { return std::make_unique<CompileCommand>(); }

}  // namespace fettle
