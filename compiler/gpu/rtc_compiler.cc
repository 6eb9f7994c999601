// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/rtc_compiler.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/diagnostics.h"
#include "compiler/files.h"
#include "compiler/gpu/build_id.h"
#include "compiler/gpu/fork_server.h"
#include "compiler/gpu/gpu_options.h"
#include "compiler/gpu/gpu_source.h"
#include "compiler/gpu/rtc_diagnostics.h"
#include "compiler/sandbox.h"
#include "core/portable_target.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

constexpr char kTemporaryInside[] = "/fettle/tmp";
constexpr char kProgramInside[] = "/fettle/bin";

std::string FolderOfThisProgram() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

// "sm_90a" -> 90, 0 when it is no such name.
int SmNumber(std::string_view arch) {
  int number = 0;
  for (const std::string_view prefix : {"sm_", "compute_"}) {
    if (!arch.starts_with(prefix)) continue;
    arch.remove_prefix(prefix.size());
    std::from_chars(arch.data(), arch.data() + arch.size(), number);
    break;
  }
  return number;
}

// CUDA's headers as installed beside its libnvrtc, then as Debian has them.
std::vector<std::string> CudaIncludes(const std::string& library) {
  std::vector<std::string> found;
  std::error_code error;
  const fs::path folder = fs::canonical(library, error).parent_path();
  for (const fs::path& candidate :
       {folder / "../include", folder / "../../include", folder / "../../../include",
        fs::path("/usr/local/cuda/include"), fs::path("/usr/include")}) {
    if (!fs::exists(candidate / "cuda_fp16.h", error)) continue;
    const fs::path include = fs::canonical(candidate, error);
    found.push_back(include.string());
    if (fs::exists(include / "cccl", error)) found.push_back((include / "cccl").string());
    break;
  }
  return found;
}

// "7.2.53211" of libhiprtc.so.7.2.53211: hiprtcVersion answers 9.0 in every release.
std::string VersionOfFile(const std::string& library) {
  std::error_code error;
  const std::string name = fs::canonical(library, error).filename().string();
  const std::size_t at = name.find(".so.");
  return at == std::string::npos ? "unknown version" : name.substr(at + 4);
}

constexpr int kPrecompiles = 1208;       // The first NVRTC that precompiles headers: 12.8.
constexpr std::size_t kMostPrefixes = 4;  // Each takes up to 100 MB of disk.

// 1208 of "12.8".
int VersionOf(std::string_view version) {
  int major = 0, minor = 0;
  const char* const end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, major);
  if (error == std::errc() && dot != end) std::from_chars(dot + 1, end, minor);
  return 100 * major + minor;
}

// Functions without __device__, as constexpr ones that nvcc takes: NVRTC refuses them otherwise.
constexpr char kUnannotated[] = "--device-as-default-execution-space";

std::string EndingText(const rtc::Ending& ending, std::int64_t wall_seconds) {
  if (WIFSIGNALED(ending.wait_status)) {
    const int signal = WTERMSIG(ending.wait_status);
    if (signal == SIGALRM || signal == SIGXCPU || signal == SIGKILL) {
      return fmt::format(
          "the compile passed its limit of {} s or of memory; make the source smaller "
          "(template recursion, unrolling, macros)",
          wall_seconds);
    }
    return fmt::format("the compiler crashed on this source (signal {}, {})", signal,
                       strsignal(signal));
  }
  return fmt::format(
      "the compiler ended its process on this source (exit code {}); most often an "
      "option it does not know or too little memory",
      WEXITSTATUS(ending.wait_status));
}

class RtcCompiler final : public KernelCompiler {
 public:
  RtcCompiler(RtcOptions options, TemporaryFolder temporary)
      : options_(std::move(options)),
        temporary_(std::move(temporary)),
        sandbox_(options_.isolate ? Sandbox::Probe() : Sandbox::None("not asked for")) {}

  absl::Status Prepare() {
    if (options_.program.empty()) options_.program = FolderOfThisProgram() + "/fettle-compiled";
    if (!Exists(options_.program)) {
      return absl::UnavailableError(fmt::format(
          "start {}: there is no such program; install it beside fettle", options_.program));
    }
    FETTLE_ASSIGN_OR_RETURN(const std::shared_ptr<ForkServer> server, Server());
    const rtc::Hello& hello = server->hello();
    version_ = hello.version.empty() ? VersionOfFile(hello.library) : hello.version;
    std::string builds = BuildIdOf(hello.library);
    for (const std::string& more : hello.more_libraries) builds += "+" + BuildIdOf(more);
    compiler_ = fmt::format("{} {} ({})", name(), version_, builds);
    precompiles_ = options_.nvrtc && options_.precompile && VersionOf(version_) >= kPrecompiles;
    identity_ = fmt::format("{}; headers {}", compiler_, DialectHeadersDigest().substr(0, 16));
    if (options_.nvrtc) identity_ += fmt::format("; {}", kUnannotated);
    if (options_.nvrtc && options_.include_dirs.empty()) {
      options_.include_dirs = CudaIncludes(hello.library);
    }
    return absl::OkStatus();
  }

  std::string_view name() const override { return options_.nvrtc ? "nvrtc" : "hiprtc"; }
  std::string identity() const override { return identity_; }

  bool Supports(const Target& target) const override {
    if (target.vendor != (options_.nvrtc ? Vendor::kNvidia : Vendor::kAmd)) return false;
    if (archs_.empty()) return true;
    return std::any_of(archs_.begin(), archs_.end(), [&](const std::string& arch) {
      return options_.nvrtc ? SmNumber(arch) == SmNumber(target.name) : arch == target.name;
    });
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
    const GpuOptions options =
        options_.nvrtc ? ReadNvrtcOptions(request.options) : ReadAmdOptions(request.options);
    CompileResult result;
    if (auto objections =
            FindRequestObjections(request, options.rejected,
                                  options_.nvrtc ? AllowedNvrtcOptions() : AllowedAmdOptions());
        !objections.empty()) {
      result = RejectionOf(std::move(objections));
    } else {
      rtc::Request wire = WireRequest(request, options);
      // A request's own headers may stand for any other, and the server compiles nobody's code.
      const bool precompiles = precompiles_ && request.headers.empty();
      const std::string headers = precompiles ? SlowHeadersOf(request.source) : std::string();
      FETTLE_ASSIGN_OR_RETURN(const rtc::Ending ending, Run(std::move(wire), headers, stop));
      result = ResultOf(request, ending);
    }
    result.compiler = compiler_;
    result.elapsed = std::chrono::steady_clock::now() - start;
    return result;
  }

 private:
  absl::StatusOr<std::shared_ptr<ForkServer>> Server() {
    const std::lock_guard lock(mutex_);
    if (server_ != nullptr) return server_;
    const std::string folder = fs::path(options_.program).parent_path().string();
    const SandboxMount program{folder.empty() ? "." : folder, kProgramInside};
    const SandboxMount temporary{temporary_.path(), kTemporaryInside, /*writable=*/true};
    std::vector<SandboxMount> mounts{program, temporary};
    for (const std::string& path : options_.readable) mounts.push_back({path, path});
    ChildCommand command;
    command.argv = options_.argv_prefix;
    command.argv.push_back(sandbox_.Seen(program) + "/" +
                           fs::path(options_.program).filename().string());
    command.argv.emplace_back(name());
    command.argv.push_back(sandbox_.Seen(temporary));
    command.argv.insert(command.argv.end(), options_.library_files.begin(),
                        options_.library_files.end());
    command = sandbox_.Wrap(std::move(command), mounts);
    FETTLE_ASSIGN_OR_RETURN(
        std::unique_ptr<ForkServer> started,
        ForkServer::Start(std::move(command.argv), {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}));
    archs_ = started->hello().archs;
    server_ = std::move(started);
    return server_;
  }

  // A server that is gone (the kernel killed it for memory, say) is replaced once.
  absl::StatusOr<rtc::Ending> Run(const rtc::Request& request, const std::string& headers,
                                  const std::stop_token& stop) {
    for (const bool last : {false, true}) {
      FETTLE_ASSIGN_OR_RETURN(const std::shared_ptr<ForkServer> server, Server());
      const bool precompiled = !headers.empty() && Prepared(*server, request, headers, stop);
      auto ending =
          server->Compile(precompiled ? BehindPrefix(request, headers) : request, stop);
      if (last || !absl::IsUnavailable(ending.status())) return ending;
      const std::lock_guard lock(mutex_);
      if (server_ == server) {
        server_.reset();
        prefixes_.clear();
      }
    }
    return absl::InternalError("unreachable");
  }

  // A command line's macros would make each candidate's headers other ones; behind the headers, as
  // definitions, they do not.
  static rtc::Request BehindPrefix(rtc::Request request, const std::string& headers) {
    std::string definitions;
    std::erase_if(request.options, [&definitions](const std::string& option) {
      if (!option.starts_with("-D")) return false;
      const std::size_t equals = option.find('=');
      definitions += fmt::format("#define {} {}\n", option.substr(2, equals - 2),
                                 equals == std::string::npos ? "1" : option.substr(equals + 1));
      return true;
    });
    request.prefix = headers;
    request.source =
        fmt::format("{}#line 1 \"{}\"\n{}", definitions, request.name, request.source);
    return request;
  }

  // Whether the server holds these headers precompiled for these options. The first to ask has it
  // make them; others compile without meanwhile.
  bool Prepared(ForkServer& server, const rtc::Request& request, const std::string& headers,
                const std::stop_token& stop) {
    rtc::Request empty = BehindPrefix(request, headers);
    const std::string key = fmt::format("{}{}", headers, fmt::join(empty.options, "\n"));
    {
      const std::lock_guard lock(mutex_);
      const auto known = prefixes_.find(key);
      if (known != prefixes_.end()) return known->second;
      if (prefixes_.size() >= kMostPrefixes) return false;
      prefixes_[key] = false;
    }
    empty.source = "extern \"C\" __global__ void fettle_nothing() {}\n";
    empty.entries.clear();
    const auto ending = server.Prepare(empty, stop);
    const bool made = ending.ok() && ending->reply.has_value() && ending->reply->code == 0;
    const std::lock_guard lock(mutex_);
    return prefixes_[key] = made;
  }

  rtc::Request WireRequest(const CompileRequest& request, const GpuOptions& options) const {
    rtc::Request wire{.name = request.source_name, .source = request.source};
    const DialectHeaders shims =
        HeadersFor(options_.nvrtc ? GpuFrontEnd::kNvrtc : GpuFrontEnd::kHiprtc, request.dialect);
    for (const auto* list : {&request.headers, &shims.headers}) {
      for (const auto& [header, text] : *list) {
        wire.header_names.push_back(header);
        wire.header_texts.push_back(text);
      }
    }
    if (options_.nvrtc) {
      const bool ptx = options.ptx || IsPortable(request.target);
      const std::string arch = options.ptx && !IsPortable(request.target)
                                   ? "compute_" + request.target.name.substr(3)
                                   : request.target.name;
      wire.options = {"--gpu-architecture=" + arch, "-DFETTLE_TARGET_NVIDIA=1", kUnannotated};
      if (!ptx) wire.options.emplace_back("--ptxas-options=--warn-on-spills");
      if (!shims.first.empty()) wire.options.push_back("--pre-include=" + shims.first);
      for (const std::string& path : options_.include_dirs) wire.options.push_back("-I" + path);
    } else {
      wire.options = {"--offload-arch=" + request.target.name, "-DFETTLE_TARGET_AMD=1"};
      if (!shims.first.empty()) wire.options.insert(wire.options.end(), {"-include", shims.first});
    }
    for (const auto& [macro, value] : request.macros) {
      wire.options.push_back(fmt::format("-D{}={}", macro, value));
    }
    wire.options.insert(wire.options.end(), options.arguments.begin(), options.arguments.end());
    wire.entries = request.entries;
    wire.want_ptx = options.ptx || IsPortable(request.target);
    wire.cpu_seconds = options_.cpu_seconds;
    wire.wall_seconds = options_.wall_seconds;
    wire.address_space_bytes = options_.address_space_bytes;
    wire.file_bytes = options_.file_bytes;
    return wire;
  }

  CompileResult ResultOf(const CompileRequest& request, const rtc::Ending& ending) const {
    if (!ending.reply.has_value()) {
      return Rejection(request.source_name, EndingText(ending, options_.wall_seconds));
    }
    const rtc::Reply& reply = *ending.reply;
    CompileResult result;
    result.log = CleanLog(StripTemporaryFolders(reply.log), {});
    result.diagnostics =
        options_.nvrtc ? ParseNvrtcDiagnostics(result.log) : ParseGnuDiagnostics(result.log);
    for (std::size_t i = 0; i < reply.symbols.size(); ++i) {
      if (!reply.symbols[i].empty()) continue;
      result.diagnostics.push_back({request.source_name, 0, 0, "error",
                                    fmt::format("there is no kernel {}", request.entries[i])});
    }
    const bool named = std::none_of(reply.symbols.begin(), reply.symbols.end(),
                                    [](const std::string& symbol) { return symbol.empty(); });
    result.accepted = reply.code == 0 && named && !reply.object.empty();
    if (result.accepted) {
      result.code_object = reply.object;
      result.symbols = reply.symbols;
      return result;
    }
    auto foreign = FindForeignCode(request);
    result.diagnostics.insert(result.diagnostics.begin(), foreign.begin(), foreign.end());
    if (result.diagnostics.empty()) {
      result.diagnostics.push_back(
          {request.source_name, 0, 0, "error",
           fmt::format("{} failed with {} and said nothing more", compiler_, reply.code_name)});
    }
    return result;
  }

  RtcOptions options_;
  TemporaryFolder temporary_;
  Sandbox sandbox_;
  std::string version_, compiler_, identity_;
  std::vector<std::string> archs_;  // Set before the first Compile; empty: unknown.
  std::mutex mutex_;
  std::shared_ptr<ForkServer> server_;  // Guarded by mutex_, as is what follows.
  std::map<std::string, bool> prefixes_;  // Headers and options: whether server_ holds them precompiled.
  bool precompiles_ = false;              // Set before the first Compile.
};

}  // namespace

absl::StatusOr<std::unique_ptr<KernelCompiler>> MakeRtcCompiler(RtcOptions options) {
  FETTLE_ASSIGN_OR_RETURN(TemporaryFolder temporary, TemporaryFolder::Create(""));
  auto compiler = std::make_unique<RtcCompiler>(std::move(options), std::move(temporary));
  FETTLE_RETURN_IF_ERROR(compiler->Prepare());
  return compiler;
}

}  // namespace fettle
