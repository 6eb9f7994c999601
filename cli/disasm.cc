// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/facts_text.h"
#include "cli/format.h"
#include "cli/local.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/source_flags.h"
#include "cli/task_folder.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/bundle.h"
#include "worker/toolchains.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxObjectBytes = std::int64_t{256} << 20;

bool IsSource(const std::string& file) {
  for (const char* suffix : {".cu", ".hip", ".cc", ".cpp", ".cuh", ".h"}) {
    if (file.ends_with(suffix)) return true;
  }
  return false;
}

// A code object with a name for its head line.
struct Object {
  std::string name, bytes;
};

class DisasmCommand final : public Subcommand {
 public:
  std::string name() const override { return "disasm"; }
  std::string summary() const override {
    return "annotated SASS or AMD ISA of a code object, source or variant";
  }
  std::string details() const override {
    return "WHAT is a code object (.cubin, .co), a kernel source with --target and --entry, or a\n"
           "variant's id. Needs nvdisasm or cuobjdump for NVIDIA, llvm-objdump for AMD.\n"
           "Exit code: 0 shown, 1 the source was rejected, 3 no disassembler is here.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("WHAT", &what_, "code object, kernel source or variant").completes =
        Completes::kFile;
    source_.Declare(flags);
    flags.Flag("--cache", "DIR", &local_.cache, "compile cache (default ~/.cache/fettle)")
        .completes = Completes::kFolder;
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    std::vector<Object> objects;
    std::error_code error;
    if (!std::filesystem::is_regular_file(what_, error)) {
      FETTLE_ASSIGN_OR_RETURN(objects, ObjectsOfVariant());
    } else if (IsSource(what_)) {
      FETTLE_ASSIGN_OR_RETURN(const std::optional<Object> compiled, Compile(context));
      if (!compiled) return ExitCode::kNo;
      objects.push_back(*compiled);
    } else {
      FETTLE_ASSIGN_OR_RETURN(std::string bytes, ReadFile(what_, kMaxObjectBytes));
      objects.push_back({what_, std::move(bytes)});
    }
    json list = json::array();
    for (const Object& object : objects) {
      FETTLE_ASSIGN_OR_RETURN(json shown, Show(object, context));
      list.push_back(std::move(shown));
    }
    if (json_) context.terminal.Print(list.dump(2, ' ', false, kReplaceInvalid));
    return ExitCode::kOk;
  }

 private:
  absl::StatusOr<json> Show(const Object& object, Context& context) const {
    FETTLE_ASSIGN_OR_RETURN(const Target target, TargetOfObject(object.bytes));
    FETTLE_ASSIGN_OR_RETURN(const json facts, FactsOf(object.bytes, target));
    FETTLE_ASSIGN_OR_RETURN(json disassembly, DisassemblyOf(object.bytes, target, context.stop));
    if (!json_) {
      context.terminal.Print(
          Printable(fmt::format("{}, by {}", object.name, TextOf(disassembly, "tool"))));
      context.terminal.Raw(FactsText(facts, context.terminal.width()));
      context.terminal.Raw(Printable(TextOf(disassembly, "text")));
    }
    disassembly["object"] = object.name;
    disassembly["target"] = target.name;
    disassembly["facts"] = facts;
    return disassembly;
  }

  // Nothing when the compiler rejected it; its diagnostics are printed.
  absl::StatusOr<std::optional<Object>> Compile(Context& context) const {
    if (source_.target == "cpu") {
      return absl::InvalidArgumentError("--target: name a GPU's architecture, as sm_90a or gfx950");
    }
    FETTLE_ASSIGN_OR_RETURN(const CompileRequest request, source_.Request(what_));
    const std::string cache = local_.ToOptions().cache_dir;
    if (!cache.empty()) FETTLE_RETURN_IF_ERROR(MakePrivateFolder(cache));
    const Toolchains toolchains = Toolchains::Find(cache, /*gpu=*/true);
    FETTLE_ASSIGN_OR_RETURN(KernelCompiler* const compiler, toolchains.For(request.target));
    FETTLE_ASSIGN_OR_RETURN(const CompileResult result, compiler->Compile(request, context.stop));
    if (result.accepted) {
      return Object{fmt::format("{} by {}", what_, result.compiler), result.code_object};
    }
    context.terminal.Note(Printable(result.log));
    context.terminal.Note(Printable(fmt::format("{}: rejected by {}", what_, result.compiler)));
    return std::nullopt;
  }

  absl::StatusOr<std::vector<Object>> ObjectsOfVariant() const {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, client->GetVariant(what_));
    if (variant.target() == "cpu") {
      return absl::InvalidArgumentError(
          fmt::format("variant {} is for the cpu target, which has no GPU code", variant.id()));
    }
    v1::ExportBundleRequest request;
    request.add_variant_ids(variant.id());
    FETTLE_ASSIGN_OR_RETURN(const std::string bytes, client->ExportBundle(request));
    FETTLE_ASSIGN_OR_RETURN(BundleFiles files, UnpackBundle(bytes));
    std::vector<Object> objects;
    for (auto& [path, content] : files) {
      if (path.starts_with("objects/")) objects.push_back({path, std::move(content)});
    }
    return objects;
  }

  std::string what_;
  SourceFlags source_;
  bool json_ = false;
  LocalFlags local_;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeDisasmCommand() { return std::make_unique<DisasmCommand>(); }

}  // namespace fettle
