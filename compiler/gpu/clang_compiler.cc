// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/clang_compiler.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <elf.h>
#include <fmt/format.h>

#include "compiler/diagnostics.h"
#include "compiler/files.h"
#include "compiler/gpu/build_id.h"
#include "compiler/gpu/gpu_options.h"
#include "compiler/gpu/gpu_source.h"
#include "compiler/gpu/rtc_diagnostics.h"
#include "compiler/sandbox.h"
#include "core/code_object/elf.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr char kShimsInside[] = "/fettle/shims";
constexpr char kJobInside[] = "/fettle/job";
constexpr char kEntryPrefix[] = "fettle_entry_";
constexpr std::int64_t kMaxCodeObject = std::int64_t{256} << 20;

std::vector<std::string> Environment(const std::string& temporary) {
  return {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TMPDIR=" + temporary};
}

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return Exists(name) ? name : "";
  for (const char* folder : {"/usr/bin/", "/usr/local/bin/", "/opt/rocm/llvm/bin/"}) {
    if (Exists(folder + name)) return folder + name;
  }
  return "";
}

// A pointer to each entry, so that templates are instantiated and their symbols can be read back.
std::string EntryPointers(const std::vector<std::string>& entries) {
  std::string text = "\n#line 1 \"<entries>\"\n";
  for (std::size_t i = 0; i < entries.size(); ++i) {
    text += fmt::format(
        "extern \"C\" __device__ __attribute__((used)) const void* const {}{} = "
        "reinterpret_cast<const void*>(&{});\n",
        kEntryPrefix, i, entries[i]);
  }
  return text;
}

// The kernel symbol that each entry's pointer is relocated to.
std::vector<std::string> SymbolsOf(ByteSpan object, std::size_t count) {
  std::vector<std::string> symbols(count);
  const auto elf = ReadElf(object);
  if (!elf.ok()) return symbols;
  std::map<std::uint64_t, std::uint64_t> targets;  // Of relocations: place, value.
  for (const ElfSection& section : elf->sections) {
    if (section.type != SHT_RELA) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Rela) <= section.bytes.size();
         at += sizeof(Elf64_Rela)) {
      const auto rela = LoadAt<Elf64_Rela>(section.bytes, at);
      const std::uint64_t index = ELF64_R_SYM(rela.r_info);
      std::uint64_t value = static_cast<std::uint64_t>(rela.r_addend);
      // The dynamic symbols follow those of .symtab in `symbols`.
      const std::size_t first = elf->dynsym_first;
      if (index > 0 && first + index < elf->symbols.size()) {
        value += elf->symbols[first + index].value;
      }
      targets[rela.r_offset] = value;
    }
  }
  std::map<std::uint64_t, std::string> functions;
  std::map<std::string, std::uint64_t> pointers;
  for (const ElfSymbol& symbol : elf->symbols) {
    if (symbol.type == STT_FUNC) functions[symbol.value] = symbol.name;
    if (symbol.name.starts_with(kEntryPrefix)) pointers[symbol.name] = symbol.value;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto pointer = pointers.find(fmt::format("{}{}", kEntryPrefix, i));
    if (pointer == pointers.end()) continue;
    const auto target = targets.find(pointer->second);
    if (target == targets.end()) continue;
    if (const auto found = functions.find(target->second); found != functions.end()) {
      symbols[i] = found->second;
    }
  }
  return symbols;
}

class ClangCompiler final : public KernelCompiler {
 public:
  ClangCompiler(ClangOptions options, TemporaryFolder shims)
      : options_(std::move(options)),
        shims_(std::move(shims)),
        sandbox_(options_.isolate ? Sandbox::Probe() : Sandbox::None("not asked for")) {}

  absl::Status Prepare() {
    for (const Dialect dialect : {Dialect::kCuda, Dialect::kHip}) {
      for (const auto& [name, text] : HeadersFor(GpuFrontEnd::kClang, dialect).headers) {
        FETTLE_RETURN_IF_ERROR(WriteFile(ShimFolder(shims_.path(), dialect) + "/" + name, text));
      }
    }
    std::string tried;
    for (const std::string& name : options_.programs) {
      tried += (tried.empty() ? "" : ", ") + name;
      program_ = FindProgram(name);
      if (!program_.empty() && Identify()) return absl::OkStatus();
    }
    return absl::UnavailableError(
        fmt::format("find clang for AMD (tried {}): install clang-22 and lld-22", tried));
  }

  std::string_view name() const override { return "clang"; }
  std::string identity() const override { return identity_; }

  bool Supports(const Target& target) const override {
    return target.vendor == Vendor::kAmd &&
           std::find(archs_.begin(), archs_.end(), target.name) != archs_.end();
  }

  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        std::stop_token stop) override {
    const auto start = std::chrono::steady_clock::now();
    FETTLE_RETURN_IF_ERROR(CheckRequest(request, name()));
    if (!Supports(request.target)) {
      return absl::InvalidArgumentError(fmt::format("compile for {}: {} does not know this target",
                                                    request.target.name, compiler_));
    }
    if (stop.stop_requested()) return absl::CancelledError("compile: stopped");
    const GpuOptions options = ReadAmdOptions(request.options);
    CompileResult result;
    if (auto objections = FindRequestObjections(request, options.rejected, AllowedAmdOptions());
        !objections.empty()) {
      result = RejectionOf(std::move(objections));
    } else {
      FETTLE_ASSIGN_OR_RETURN(result, Run(request, options, stop));
    }
    result.compiler = compiler_;
    result.elapsed = std::chrono::steady_clock::now() - start;
    return result;
  }

 private:
  static std::string ShimFolder(const std::string& root, Dialect dialect) {
    return root + (dialect == Dialect::kCuda ? "/cuda" : "/hip");
  }

  // Asks the program for its version, and whether it makes a gfx950 object at all.
  bool Identify() {
    ChildCommand ask{.argv = {program_, "--version"}, .environment = Environment("/tmp")};
    ask.limits.wall = std::chrono::seconds(20);
    const auto version = RunChild(ask, {});
    if (!version.ok() || !version->ok()) return false;
    std::error_code error;
    const std::string real = std::filesystem::canonical(program_, error).string();
    compiler_ = fmt::format("{} ({})", version->output.substr(0, version->output.find('\n')),
                            BuildIdOf(real));
    identity_ = fmt::format("{}; headers {}", compiler_, DialectHeadersDigest().substr(0, 16));
    archs_ = {"gfx90a", "gfx942", "gfx950"};
    const CompileRequest probe{.target = {.name = "gfx950", .vendor = Vendor::kAmd},
                               .dialect = Dialect::kHip,
                               .source_name = "probe.hip",
                               .source = "extern \"C\" __global__ void probe(int* p) { *p = 1; }",
                               .entries = {"probe"}};
    const auto made = Run(probe, {}, {});
    return made.ok() && made->accepted;
  }

  absl::StatusOr<CompileResult> Run(const CompileRequest& request, const GpuOptions& options,
                                    const std::stop_token& stop) const {
    FETTLE_ASSIGN_OR_RETURN(const TemporaryFolder job, TemporaryFolder::Create(""));
    const std::string source_name = std::filesystem::path(request.source_name).filename().string();
    const std::string source_file = source_name.empty() ? "kernel.hip" : source_name;
    FETTLE_RETURN_IF_ERROR(WriteFile(job.path() + "/src/" + source_file,
                                     request.source + EntryPointers(request.entries)));
    for (const auto& [header, text] : request.headers) {
      FETTLE_RETURN_IF_ERROR(WriteFile(job.path() + "/src/" + header, text));
    }
    const SandboxMount shims{shims_.path(), kShimsInside};
    const SandboxMount folder{job.path(), kJobInside, /*writable=*/true};
    ChildCommand command;
    command.argv = Arguments(request, options, source_file, sandbox_.Seen(shims));
    command.working_dir = sandbox_.Seen(folder) + "/src";
    command.environment = Environment(sandbox_.Seen(folder));
    command.limits = options_.limits;
    FETTLE_ASSIGN_OR_RETURN(const ChildResult child,
                            RunChild(sandbox_.Wrap(std::move(command), {shims, folder}), stop));
    std::string object;
    std::error_code error;
    const std::string out = job.path() + "/out.co";
    if (child.ok() && std::filesystem::file_size(out, error) <= kMaxCodeObject && !error) {
      FETTLE_ASSIGN_OR_RETURN(object, ReadFile(out));
    }
    return ResultOf(request, child, std::move(object), sandbox_.Seen(shims));
  }

  std::vector<std::string> Arguments(const CompileRequest& request, const GpuOptions& options,
                                     const std::string& source_file,
                                     const std::string& shims) const {
    const DialectHeaders headers = HeadersFor(GpuFrontEnd::kClang, request.dialect);
    std::vector<std::string> argv = {program_,
                                     "-x",
                                     "hip",
                                     "--offload-device-only",
                                     "--no-gpu-bundle-output",
                                     "--offload-arch=" + request.target.name,
                                     "-O3",
                                     "-std=c++17",
                                     "-nogpuinc",
                                     "-nogpulib",
                                     "-nostdinc",
                                     "-fdeclspec",
                                     "-fuse-cuid=none",
                                     "-fno-color-diagnostics",
                                     "-ferror-limit=50",
                                     "-DFETTLE_TARGET_AMD=1",
                                     "-I" + ShimFolder(shims, request.dialect),
                                     "-include",
                                     headers.first};
    for (const auto& [macro, value] : request.macros) {
      argv.push_back(fmt::format("-D{}={}", macro, value));
    }
    argv.insert(argv.end(), options.arguments.begin(), options.arguments.end());
    argv.insert(argv.end(), {source_file, "-o", "../out.co"});
    return argv;
  }

  CompileResult ResultOf(const CompileRequest& request, const ChildResult& child,
                         std::string object, const std::string& shims) const {
    CompileResult result;
    result.log = CleanLog(StripTemporaryFolders(child.output),
                          {{shims + "/cuda/", ""}, {shims + "/hip/", ""}});
    result.diagnostics = ParseGnuDiagnostics(result.log);
    if (child.ok() && !object.empty()) {
      result.symbols = SymbolsOf(AsBytes(object), request.entries.size());
      result.accepted = true;
      for (std::size_t i = 0; i < result.symbols.size(); ++i) {
        if (!result.symbols[i].empty()) continue;
        result.accepted = false;
        result.diagnostics.push_back({request.source_name, 0, 0, "error",
                                      fmt::format("there is no kernel {}", request.entries[i])});
      }
      if (result.accepted) result.code_object = std::move(object);
      return result;
    }
    auto foreign = FindForeignCode(request);
    result.diagnostics.insert(result.diagnostics.begin(), foreign.begin(), foreign.end());
    // A clang driver that its compiler died under exits with a signal's code or prints a crash.
    if (child.timed_out || child.signal != 0) {
      result.diagnostics.push_back({request.source_name, 0, 0, "error",
                                    fmt::format("the compiler ended by {}", child.Ending())});
    } else if (result.diagnostics.empty()) {
      result.diagnostics.push_back(
          {request.source_name, 0, 0, "error",
           fmt::format("{} ended with {}: see the log", compiler_, child.Ending())});
    }
    return result;
  }

  ClangOptions options_;
  TemporaryFolder shims_;
  Sandbox sandbox_;
  std::string program_, compiler_, identity_;
  std::vector<std::string> archs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KernelCompiler>> MakeClangCompiler(ClangOptions options) {
  FETTLE_ASSIGN_OR_RETURN(TemporaryFolder shims, TemporaryFolder::Create(""));
  auto compiler = std::make_unique<ClangCompiler>(std::move(options), std::move(shims));
  FETTLE_RETURN_IF_ERROR(compiler->Prepare());
  return compiler;
}

}  // namespace fettle
