// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/facts_text.h"
#include "cli/format.h"
#include "cli/local.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/task_folder.h"
#include "core/digest.h"
#include "core/skeleton.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "worker/toolchains.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxSourceBytes = 4 << 20;

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
    flags.Flag("--target", "T", &target_, "architecture (default cpu)");
    flags.Flag("--entry", "NAME", &entries_, "kernel, as norm or 'norm<__half>'; may be repeated");
    flags.Flag("--define", "NAME=VALUE", &defines_, "macro, as for a tunable; may be repeated")
        .Alias("-D");
    flags.Flag("--option", "OPTION", &options_, "compiler option, as --option=-ffast-math");
    flags.Flag("--header", "FILE", &headers_, "further file that the source includes").completes =
        Completes::kFile;
    flags.Flag("--lanes", "N", &lanes_, "cpu: width of a warp, 32 or 64 (default 32)");
    flags.Flag("--check", "", &check_, "cpu: compile for check mode");
    flags.Flag("--out", "FILE", &out_, "write the code object").completes = Completes::kFile;
    flags.Flag("--cache", "DIR", &local_.cache, "compile cache (default ~/.cache/fettle)")
        .completes = Completes::kFolder;
    flags.Flag("--facts", "", &facts_,
               "GPU targets: print registers, spills, shared memory, occupancy and instructions");
    flags.Flag("--json", "", &json_, "print JSON");
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const CompileRequest request, MakeRequest());
    const std::string cache = local_.ToOptions().cache_dir;
    if (!cache.empty()) FETTLE_RETURN_IF_ERROR(MakePrivateFolder(cache));
    const Toolchains toolchains = Toolchains::Find(cache, /*gpu=*/target_ != "cpu");
    FETTLE_ASSIGN_OR_RETURN(KernelCompiler* const compiler, toolchains.For(request.target));
    context.terminal.Status(fmt::format("compiling {} for {}", file_, target_));
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
  absl::StatusOr<CompileRequest> MakeRequest() {
    CompileRequest request;
    FETTLE_ASSIGN_OR_RETURN(request.target, FindTarget(target_));
    FETTLE_ASSIGN_OR_RETURN(request.source, ReadFile(file_, kMaxSourceBytes));
    request.source_name = std::filesystem::path(file_).filename().string();
    request.dialect = request.source_name.ends_with(".hip") ? Dialect::kHip : Dialect::kCuda;
    request.mode = check_ ? CompileMode::kCheck : CompileMode::kFast;
    request.lanes = static_cast<int>(lanes_);
    request.options = options_;
    for (const std::string& header : headers_) {
      FETTLE_ASSIGN_OR_RETURN(std::string text, ReadFile(header, kMaxSourceBytes));
      request.headers.emplace_back(std::filesystem::path(header).filename().string(),
                                   std::move(text));
    }
    for (const std::string& define : defines_) {
      const std::size_t equals = define.find('=');
      request.macros.emplace_back(define.substr(0, equals),
                                  equals == std::string::npos ? "1" : define.substr(equals + 1));
    }
    request.entries = entries_;
    if (entries_.empty()) {
      for (const KernelSignature& kernel : FindKernels(request.source)) {
        if (kernel.type_parameters.empty() && kernel.value_parameters.empty()) {
          request.entries.push_back(kernel.name);
        }
      }
    }
    if (request.entries.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("compile {}: no kernel that is not a template was found in it; name one with "
                      "--entry, as --entry 'norm<float>'",
                      file_));
    }
    return request;
  }

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
      terminal.Print(fmt::format("{}: rejected by {}", file_, result.compiler));
      return ExitCode::kNo;
    }
    terminal.Print(
        Printable(fmt::format("{}: accepted by {} in {}{}, {}", file_, result.compiler,
                              FormatDuration(static_cast<double>(result.elapsed.count())),
                              result.cache_hit ? " (cached)" : "",
                              FormatBytes(static_cast<double>(result.code_object.size())))));
    for (std::size_t i = 0; i < request.entries.size() && i < result.symbols.size(); ++i) {
      terminal.Print(Printable(fmt::format("  {} -> {}", request.entries[i], result.symbols[i])));
    }
    if (facts.is_object()) terminal.Raw(FactsText(facts, terminal.width()));
    return ExitCode::kOk;
  }

  std::string file_, out_;
  std::string target_ = "cpu";
  std::vector<std::string> entries_, defines_, options_, headers_;
  std::int64_t lanes_ = 32;
  bool check_ = false;
  bool facts_ = false;
  bool json_ = false;
  LocalFlags local_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeCompileCommand() { return std::make_unique<CompileCommand>(); }

}  // namespace fettle
