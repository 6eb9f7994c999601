// SPDX-License-Identifier: Apache-2.0
#include "compiler/cpu_compiler.h"

#include <cctype>
#include <set>

#include "compiler/cpu_toolchain.h"
#include "compiler/diagnostics.h"
#include "compiler/files.h"
#include "compiler/runtime_headers.h"
#include "compiler/source_scan.h"
#include "core/code_object/elf.h"
#include "core/digest.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

// Exit codes of the build script, so that its steps are told apart.
constexpr int kCompileFailed = 10;
constexpr int kLinkFailed = 11;
constexpr char kEntriesFile[] = "<entries>";

bool IsIdentifier(const std::string& name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

// A name expression: identifiers, template arguments, no way out of the expression.
bool IsNameExpression(const std::string& entry) {
  if (entry.empty() || entry.size() > 1000) return false;
  for (char c : entry) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 &&
        std::string_view("_:<>, ()*&-+.").find(c) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

bool IsHeaderName(const std::string& name) {
  if (name.empty() || name[0] == '/' || name.find_first_of("\\\"\n\r") != std::string::npos) {
    return false;
  }
  return name != ".." && !name.starts_with("../") && name.find("/../") == std::string::npos &&
         !name.ends_with("/..") && !name.ends_with("/");
}

std::string SymbolOf(const std::string& entry, std::size_t index) {
  std::string symbol = fmt::format("fettle_entry_{}_", index);
  for (char c : entry.substr(0, 80)) {
    symbol += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return symbol;
}

std::string LineMarker(const std::string& file) {
  std::string quoted;
  for (char c : file) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c != '\n' && c != '\r') quoted += c;
  }
  return fmt::format("#line 1 \"{}\"\n", quoted);
}

// What is compiled: macros, the user's source with its own line numbers, the entries.
std::string TranslationUnit(const CompileRequest& request, const CpuOptions& options, bool waits) {
  std::string text = LineMarker("<command line>");
  if (request.dialect == Dialect::kCuda) {
    text += "#define __CUDACC__ 1\n#define __CUDA_ARCH__ 700\n";
  } else {
    text +=
        "#define __HIPCC__ 1\n#define __HIP_DEVICE_COMPILE__ 1\n#define __HIP_PLATFORM_AMD__ 1\n";
  }
  text += "#define FETTLE_TARGET_CPU 1\n";
  for (const auto* macros : {&request.macros, &options.macros}) {
    for (const auto& [name, value] : *macros) text += fmt::format("#define {} {}\n", name, value);
  }
  text += LineMarker(request.source_name);
  text += RewriteDynamicShared(request.source);
  text += '\n';
  text += LineMarker(kEntriesFile);
  for (std::size_t i = 0; i < request.entries.size(); ++i) {
    text +=
        fmt::format("FETTLE_EXPORT_ENTRY({}, \"{}\", {}, {})\n", SymbolOf(request.entries[i], i),
                    request.entries[i], waits ? "true" : "false", request.entries[i]);
  }
  text += "FETTLE_EXPORT_MODULE\n";
  return text;
}

// Why the request is not even tried; empty: it is.
std::vector<Diagnostic> FindObjections(const CompileRequest& request, const CpuOptions& options) {
  std::vector<Diagnostic> found = FindFileAccess(request.source, request.source_name);
  const auto object = [&](std::string text) {
    found.push_back({request.source_name, 0, 0, "error", std::move(text)});
  };
  if (!options.rejected.empty()) {
    object(
        fmt::format("option {} is not allowed for the cpu target; allowed are -O0 to -O3, "
                    "-ffast-math, -funroll-loops, -fno-unroll-loops, -fno-tree-vectorize, "
                    "-std=c++17, -std=c++20 and -DNAME=VALUE",
                    options.rejected));
  }
  for (const auto* macros : {&request.macros, &options.macros}) {
    for (const auto& [name, value] : *macros) {
      if (!IsIdentifier(name) || value.find_first_of("\n\r") != std::string::npos) {
        object(fmt::format("macro {:?}: a name must be an identifier and a value one line", name));
      }
    }
  }
  for (const std::string& entry : request.entries) {
    if (!IsNameExpression(entry)) object(fmt::format("entry {:?} is no name expression", entry));
  }
  for (const auto& [name, text] : request.headers) {
    if (!IsHeaderName(name)) object(fmt::format("header {:?}: not a relative path", name));
    for (Diagnostic& diagnostic : FindFileAccess(text, name))
      found.push_back(std::move(diagnostic));
  }
  return found;
}

CompileResult Rejected(std::vector<Diagnostic> diagnostics) {
  CompileResult result;
  for (const Diagnostic& d : diagnostics) {
    result.log +=
        d.line > 0 ? fmt::format("{}:{}:{}: {}: {}\n", d.file, d.line, d.column, d.severity, d.text)
                   : fmt::format("{}: {}: {}\n", d.file, d.severity, d.text);
  }
  result.log = CleanLog(std::move(result.log), {});
  result.diagnostics = std::move(diagnostics);
  return result;
}

class CpuCompilerImpl final : public CpuCompiler {
 public:
  CpuCompilerImpl(CpuCompilerOptions options, CpuToolchain toolchain, Sandbox sandbox)
      : options_(std::move(options)),
        toolchain_(std::move(toolchain)),
        sandbox_(std::move(sandbox)) {
    report_.compiler = toolchain_.version;
    report_.isolated = sandbox_.available();
    if (!report_.isolated) {
      report_.warning =
          fmt::format("kernels are compiled without isolation ({}); inline assembly is refused",
                      sandbox_.problem());
    }
    identity_ = fmt::format("{}; machine {}; runtime {}; abi 1", toolchain_.version,
                            toolchain_.machine.substr(0, 16), RuntimeHeadersDigest().substr(0, 16));
  }

  absl::Status Prepare() {
    std::string cache = options_.cache_dir;
    if (cache.empty()) {
      FETTLE_ASSIGN_OR_RETURN(TemporaryFolder folder, TemporaryFolder::Create(""));
      own_cache_.emplace(std::move(folder));
      cache = own_cache_->path();
    }
    cache_ = cache + "/cpu";
    auto headers = UnpackRuntimeHeaders(cache_ + "/include");
    if (!headers.ok()) {
      return absl::UnavailableError(
          fmt::format("prepare the cpu compiler: {}", std::string(headers.status().message())));
    }
    headers_ = {*std::move(headers), "/fettle/include", false};
    return absl::OkStatus();
  }

  std::string_view name() const override { return "cpu"; }
  std::string identity() const override { return identity_; }
  bool Supports(const Target& target) const override { return target.vendor == Vendor::kCpu; }
  const CpuCompilerReport& report() const override { return report_; }

  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        std::stop_token stop) override {
    const auto start = std::chrono::steady_clock::now();
    FETTLE_RETURN_IF_ERROR(Validate(request));
    if (stop.stop_requested()) return absl::CancelledError("compile for cpu: stopped");
    FETTLE_ASSIGN_OR_RETURN(CompileResult result, CompileValid(request, stop));
    result.compiler = toolchain_.version;
    result.elapsed = std::chrono::steady_clock::now() - start;
    return result;
  }

 private:
  absl::Status Validate(const CompileRequest& request) const {
    if (!Supports(request.target)) {
      return absl::InvalidArgumentError(fmt::format(
          "compile for {}: the cpu compiler makes code for cpu only", request.target.name));
    }
    if (request.source.empty()) return absl::InvalidArgumentError("compile for cpu: empty source");
    if (request.entries.empty()) return absl::InvalidArgumentError("compile for cpu: no entries");
    if (request.lanes != 32 && request.lanes != 64) {
      return absl::InvalidArgumentError(
          fmt::format("compile for cpu: {} lanes; a warp has 32 or 64", request.lanes));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<CompileResult> CompileValid(const CompileRequest& request,
                                             const std::stop_token& stop) {
    const CpuOptions options = ReadCpuOptions(request.options);
    std::vector<Diagnostic> objections = FindObjections(request, options);
    if (!sandbox_.available()) AddAssembly(request, objections);
    if (!objections.empty()) return Rejected(std::move(objections));

    FETTLE_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Create(""));
    const SandboxMount job{folder.path(), "/job", true};
    bool waits = NamesWait(request.source);
    for (const auto& [name, text] : request.headers) {
      waits = waits || NamesWait(text);
      FETTLE_RETURN_IF_ERROR(
          WriteFile(fmt::format("{}/src/{}", job.host, name), RewriteDynamicShared(text)));
    }
    FETTLE_RETURN_IF_ERROR(
        WriteFile(job.host + "/main.cc", TranslationUnit(request, options, waits)));
    FETTLE_RETURN_IF_ERROR(MakeFolders(job.host + "/src"));
    FETTLE_RETURN_IF_ERROR(MakeFolders(job.host + "/tmp"));

    std::optional<SandboxMount> precompiled;
    if (options.flags.empty()) {
      FETTLE_ASSIGN_OR_RETURN(precompiled, Precompiled(request, options, stop));
    }
    FETTLE_ASSIGN_OR_RETURN(ChildResult child, Build(request, options, job, precompiled, stop));
    if (precompiled && child.output.find("PCH") != std::string::npos && !child.ok()) {
      // The precompiled header could not be mapped in this process.
      FETTLE_ASSIGN_OR_RETURN(child, Build(request, options, job, std::nullopt, stop));
    }
    return Judge(request, job, std::move(child));
  }

  // Without a sandbox, .incbin would read any file into the code object.
  static void AddAssembly(const CompileRequest& request, std::vector<Diagnostic>& objections) {
    std::string all = BlankNonCode(request.source);
    for (const auto& [name, text] : request.headers) all += "\n" + BlankNonCode(text);
    std::string word;
    for (char c : all + " ") {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
        word += c;
        continue;
      }
      if (word == "asm" || word == "__asm__" || word == "__asm") {
        objections.push_back({request.source_name, 0, 0, "error",
                              "inline assembly is refused where kernels are compiled without "
                              "isolation; install bubblewrap"});
        return;
      }
      word.clear();
    }
  }

  std::vector<SandboxMount> Mounts(const SandboxMount& job,
                                   const std::optional<SandboxMount>& precompiled) const {
    std::vector<SandboxMount> mounts = {headers_, job};
    if (precompiled) mounts.push_back(*precompiled);
    mounts.insert(mounts.end(), toolchain_.mounts.begin(), toolchain_.mounts.end());
    return mounts;
  }

  absl::StatusOr<ChildResult> RunScript(const std::string& script, const SandboxMount& job,
                                        const std::optional<SandboxMount>& precompiled,
                                        const std::stop_token& stop) const {
    ChildCommand command{
        .argv = {"/bin/sh", "-c", script},
        .environment = {"PATH=/usr/bin:/bin", "LC_ALL=C", "TMPDIR=" + sandbox_.Seen(job) + "/tmp"},
        .working_dir = sandbox_.Seen(job),
        .limits = options_.limits};
    FETTLE_ASSIGN_OR_RETURN(
        ChildResult result,
        RunChild(sandbox_.Wrap(std::move(command), Mounts(job, precompiled)), stop));
    if (result.output.starts_with("bwrap: ")) {
      return absl::UnavailableError(fmt::format("isolate the compiler: {}",
                                                result.output.substr(0, result.output.find('\n'))));
    }
    return result;
  }

  absl::StatusOr<ChildResult> Build(const CompileRequest& request, const CpuOptions& options,
                                    const SandboxMount& job,
                                    const std::optional<SandboxMount>& precompiled,
                                    const std::stop_token& stop) const {
    const std::string at = sandbox_.Seen(job);
    std::vector<std::string> compile = {toolchain_.compiler, "-x", "c++"};
    for (std::string& flag : CpuCompileFlags(toolchain_, request.mode, request.lanes, options)) {
      compile.push_back(std::move(flag));
    }
    const std::string folder = request.source_name.substr(0, request.source_name.rfind('/') + 1);
    if (IsHeaderName(folder + "x")) {
      compile.insert(compile.end(), {"-iquote", at + "/src/" + folder});
    }
    compile.insert(compile.end(),
                   {"-iquote", at + "/src", "-I" + sandbox_.Seen(headers_), "-I" + at + "/src"});
    const std::string header =
        precompiled ? sandbox_.Seen(*precompiled) + "/all.h" : std::string("fettle_cpu.h");
    if (precompiled && toolchain_.is_clang) {
      compile.insert(compile.end(), {"-include-pch", header + ".pch"});
    } else {
      compile.insert(compile.end(), {"-include", header});
    }
    compile.insert(compile.end(), {"-c", "main.cc", "-o", "main.o"});
    std::vector<std::string> link = {toolchain_.linker, "main.o", "-o", "main.so"};
    for (std::string& flag : CpuLinkFlags(toolchain_, request.mode, options)) {
      link.push_back(std::move(flag));
    }
    if (!toolchain_.libgcc.empty()) link.push_back(toolchain_.libgcc);
    return RunScript(fmt::format("{} || exit {}\n{} || exit {}\n", ShellJoin(compile),
                                 kCompileFailed, ShellJoin(link), kLinkFailed),
                     job, precompiled, stop);
  }

  // The precompiled runtime header for these flags, made on first use; nothing when it cannot be
  // made (then each compile reads the header itself).
  absl::StatusOr<std::optional<SandboxMount>> Precompiled(const CompileRequest& request,
                                                          const CpuOptions& options,
                                                          const std::stop_token& stop) {
    std::vector<std::string> flags =
        CpuCompileFlags(toolchain_, request.mode, request.lanes, options);
    std::string key = identity_;
    for (const std::string& flag : flags) key += "\n" + flag;
    if (!sandbox_.available()) key += "\n" + headers_.host;
    const std::string folder = fmt::format("{}/pch/{}", cache_, Sha256Hex(key).substr(0, 24));
    const SandboxMount final_mount{folder, "/fettle/pch", false};
    const std::lock_guard lock(precompile_mutex_);
    if (Exists(folder)) return final_mount;

    FETTLE_ASSIGN_OR_RETURN(const TemporaryFolder temporary,
                            TemporaryFolder::Create(cache_ + "/pch"));
    const std::string staging = temporary.path() + "/new";
    const SandboxMount making{staging, "/fettle/pch", true};
    FETTLE_RETURN_IF_ERROR(WriteFile(staging + "/all.h", "#include <fettle_cpu.h>\n"));
    const SandboxMount job{temporary.path(), "/job", true};
    FETTLE_RETURN_IF_ERROR(MakeFolders(job.host + "/tmp"));
    std::vector<std::string> command = {toolchain_.compiler, "-x", "c++-header"};
    command.insert(command.end(), flags.begin(), flags.end());
    const std::string header = sandbox_.Seen(making) + "/all.h";
    command.insert(command.end(), {"-I" + sandbox_.Seen(headers_), header, "-o",
                                   header + (toolchain_.is_clang ? ".pch" : ".gch")});
    FETTLE_ASSIGN_OR_RETURN(const ChildResult result,
                            RunScript(ShellJoin(command), job, making, stop));
    if (!result.ok()) return std::optional<SandboxMount>();
    FETTLE_RETURN_IF_ERROR(PublishFolder(staging, folder));
    return final_mount;
  }

  // Turns the ending of the build into a verdict on the source.
  absl::StatusOr<CompileResult> Judge(const CompileRequest& request, const SandboxMount& job,
                                      ChildResult child) const {
    CompileResult result;
    result.log = CleanLog(std::move(child.output), {{sandbox_.Seen(job) + "/src/", ""},
                                                    {sandbox_.Seen(job) + "/", ""},
                                                    {sandbox_.Seen(headers_) + "/", ""}});
    result.diagnostics = ParseGnuDiagnostics(result.log);
    NameEntries(request, result.diagnostics);
    if (!child.ok()) {
      ExplainFailure(request, child, result);
      return result;
    }
    FETTLE_ASSIGN_OR_RETURN(result.code_object, ReadFile(job.host + "/main.so"));
    FETTLE_ASSIGN_OR_RETURN(const ElfFile elf, ReadElf(AsBytes(result.code_object)));
    std::set<std::string> missing;
    for (const ElfSymbol& symbol : elf.symbols) {
      if (symbol.section == 0 && !symbol.name.empty() && !IsAllowedImport(symbol.name)) {
        missing.emplace(symbol.name);
      }
    }
    if (!missing.empty()) {
      CompileResult rejected = Rejection(
          request.source_name,
          fmt::format("calls {}, which no kernel on the cpu target may call or which has no "
                      "definition",
                      fmt::join(missing, ", ")));
      return rejected;
    }
    result.accepted = true;
    for (std::size_t i = 0; i < request.entries.size(); ++i) {
      result.symbols.push_back(SymbolOf(request.entries[i], i));
    }
    return result;
  }

  // Diagnostics of the appended lines concern the entry of that line.
  static void NameEntries(const CompileRequest& request, std::vector<Diagnostic>& diagnostics) {
    for (Diagnostic& diagnostic : diagnostics) {
      if (diagnostic.file != kEntriesFile) continue;
      const std::size_t line = static_cast<std::size_t>(diagnostic.line);
      if (line >= 1 && line <= request.entries.size()) {
        diagnostic.text = fmt::format("entry {}: {}", request.entries[line - 1], diagnostic.text);
      }
    }
  }

  void ExplainFailure(const CompileRequest& request, const ChildResult& child,
                      CompileResult& result) const {
    std::string text;
    result.repeatable = false;
    if (child.timed_out) {
      text = fmt::format(
          "the compiler passed its time limit of {} s",
          std::chrono::duration_cast<std::chrono::seconds>(options_.limits.wall).count());
    } else if (result.log.find("out of memory") != std::string::npos ||
               result.log.find("memory exhausted") != std::string::npos) {
      text = fmt::format("the compiler passed its memory limit of {} MiB",
                         options_.limits.address_space_bytes >> 20);
    } else if (result.log.find("CPU time limit exceeded") != std::string::npos) {
      text = fmt::format("the compiler passed its limit of {} s of processor time",
                         options_.limits.cpu_seconds);
    } else if (result.log.find("signal terminated program") != std::string::npos) {
      text = "the compiler was killed; it passed a limit on time or memory, or crashed";
    } else {
      result.repeatable = child.exit_code == kCompileFailed || child.exit_code == kLinkFailed;
      for (const Diagnostic& diagnostic : result.diagnostics) {
        if (diagnostic.severity == "error") return;
      }
      text =
          child.exit_code == kLinkFailed
              ? fmt::format("the linker refused: {}", result.log.substr(0, result.log.find('\n')))
              : fmt::format("the compiler ended with {}", child.Ending());
    }
    result.diagnostics.push_back({request.source_name, 0, 0, "error", text});
    result.log =
        CleanLog(fmt::format("{}: error: {}\n{}", request.source_name, text, result.log), {});
  }

  CpuCompilerOptions options_;
  CpuToolchain toolchain_;
  Sandbox sandbox_;
  CpuCompilerReport report_;
  std::string identity_, cache_;
  std::optional<TemporaryFolder> own_cache_;
  SandboxMount headers_;
  std::mutex precompile_mutex_;  // One precompiled header at a time.
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuCompiler>> CpuCompiler::Create(CpuCompilerOptions options) {
  FETTLE_ASSIGN_OR_RETURN(CpuToolchain toolchain, FindCpuToolchain(options.compiler));
  Sandbox sandbox = options.isolate ? Sandbox::Probe() : Sandbox::None("isolation is off");
  auto compiler = std::make_unique<CpuCompilerImpl>(std::move(options), std::move(toolchain),
                                                    std::move(sandbox));
  FETTLE_RETURN_IF_ERROR(compiler->Prepare());
  return compiler;
}

}  // namespace fettle
