// SPDX-License-Identifier: Apache-2.0
#include "compiler/cpu_toolchain.h"

#include <algorithm>
#include <climits>
#include <cstdlib>

#include <unistd.h>

#include "core/digest.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

std::string RealPath(const std::string& path) {
  char buffer[PATH_MAX];
  return realpath(path.c_str(), buffer) == nullptr ? std::string() : std::string(buffer);
}

// An absolute path or a name to look up in $PATH and the usual folders.
std::string FindExecutable(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0 ? RealPath(name) : std::string();
  }
  const char* variable = std::getenv("PATH");
  std::string folders =
      std::string(variable == nullptr ? "" : variable) + ":/usr/bin:/usr/local/bin";
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string path = folders.substr(at, end - at) + "/" + name;
    // A compiler cache in front of the compiler does not work in a sandbox.
    if (path[0] == '/' && access(path.c_str(), X_OK) == 0) {
      const std::string real = RealPath(path);
      if (!real.ends_with("/ccache")) return real;
    }
    at = end + 1;
  }
  return {};
}

absl::StatusOr<std::string> Ask(const std::vector<std::string>& argv) {
  ChildCommand command{.argv = argv, .environment = {"PATH=/usr/bin:/bin", "LC_ALL=C"}};
  command.limits.wall = std::chrono::seconds(30);
  command.limits.output_bytes = 4 << 20;
  FETTLE_ASSIGN_OR_RETURN(const ChildResult result, RunChild(command, {}));
  if (!result.ok()) {
    return absl::UnavailableError(
        fmt::format("run {}: it ended with {}", argv[0], result.Ending()));
  }
  return result.output;
}

std::string FirstLine(const std::string& text) {
  const std::size_t end = text.find('\n');
  return end == std::string::npos ? text : text.substr(0, end);
}

// The file the compiler would link, or empty when it knows none.
std::string LibraryPath(const std::string& compiler, const std::string& name) {
  const absl::StatusOr<std::string> answer = Ask({compiler, "-print-file-name=" + name});
  if (!answer.ok()) return {};
  const std::string path = FirstLine(*answer);
  return path.find('/') == std::string::npos ? std::string() : RealPath(path);
}

}  // namespace

absl::StatusOr<CpuToolchain> FindCpuToolchain(const std::string& compiler) {
  CpuToolchain found;
  found.compiler = FindExecutable(compiler);
  if (found.compiler.empty()) {
    return absl::UnavailableError(fmt::format(
        "no C++ compiler {} for the cpu target; install g++ (Debian: apt install g++)", compiler));
  }
  found.linker = FindExecutable("ld");
  if (found.linker.empty()) {
    return absl::UnavailableError(
        "no linker ld for the cpu target; install it (Debian: apt install binutils)");
  }
  FETTLE_ASSIGN_OR_RETURN(const std::string version, Ask({found.compiler, "--version"}));
  found.version = FirstLine(version);
  found.is_clang = version.find("clang") != std::string::npos;
  FETTLE_ASSIGN_OR_RETURN(const std::string macros, Ask({found.compiler, "-march=native", "-dM",
                                                         "-E", "-x", "c++", "/dev/null"}));
  found.machine = Sha256Hex(macros);
  found.libgcc = LibraryPath(found.compiler, "libgcc.a");
  found.libmvec = LibraryPath(found.compiler, "libmvec.so.1");
  if (!found.compiler.starts_with("/usr/")) {
    // <prefix>/bin/g++: its own libraries lie in <prefix>.
    const std::string folder = found.compiler.substr(0, found.compiler.rfind('/'));
    const std::string prefix = folder.substr(0, folder.rfind('/'));
    if (!prefix.empty()) found.mounts.push_back({prefix, prefix, false});
  }
  return found;
}

CpuOptions ReadCpuOptions(const std::vector<std::string>& options) {
  static const std::vector<std::string> kAllowed = {"-O0",
                                                    "-O1",
                                                    "-O2",
                                                    "-O3",
                                                    "-funroll-loops",
                                                    "-fno-unroll-loops",
                                                    "-fno-tree-vectorize",
                                                    "-std=c++17",
                                                    "-std=c++20",
                                                    "-std=gnu++17",
                                                    "-std=gnu++20"};
  CpuOptions out;
  for (const std::string& option : options) {
    if (option == "-ffast-math" || option == "--use_fast_math" || option == "-use_fast_math") {
      out.fast_math = true;
      out.flags.push_back("-ffast-math");
    } else if (option.starts_with("-D") && option.size() > 2) {
      const std::size_t equals = option.find('=');
      out.macros.emplace_back(option.substr(2, equals == std::string::npos ? equals : equals - 2),
                              equals == std::string::npos ? "1" : option.substr(equals + 1));
    } else if (std::find(kAllowed.begin(), kAllowed.end(), option) != kAllowed.end()) {
      out.flags.push_back(option);
    } else if (out.rejected.empty()) {
      out.rejected = option;
    }
  }
  return out;
}

std::vector<std::string> CpuCompileFlags(const CpuToolchain& toolchain, CompileMode mode, int lanes,
                                         const CpuOptions& options) {
  const bool check = mode == CompileMode::kCheck;
  std::vector<std::string> flags = {
      "-std=c++17", "-fPIC", "-march=native", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden",
      "-w",
      // Kernels reinterpret memory (uint4 as half2[4]); without this they are miscompiled.
      "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
      "-fno-semantic-interposition",
      // Large local arrays hit the guard page below a fiber's stack instead of jumping over it.
      "-fstack-clash-protection", "-fno-asynchronous-unwind-tables", "-fmessage-length=0",
      // Defaults of some distributions, which call functions that no kernel may call.
      "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-fdiagnostics-color=never",
      fmt::format("-DFETTLE_CPU_CHECK={}", check ? 1 : 0),
      fmt::format("-DFETTLE_CPU_LANES={}", lanes)};
  flags.push_back(check ? "-O1" : "-O3");
  if (check) {
    flags.insert(flags.end(), {"-g1", "-gdwarf-4", "-fno-omit-frame-pointer",
                               "-ftrivial-auto-var-init=pattern", "-fsanitize=thread",
                               "-fsanitize=bounds,alignment,shift,signed-integer-overflow,"
                               "integer-divide-by-zero,null,return,unreachable,vla-bound"});
    if (toolchain.is_clang) {
      flags.insert(flags.end(), {"-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm",
                                 "-tsan-instrument-read-before-write=1"});
    } else {
      flags.insert(flags.end(),
                   {"-fno-inline-small-functions", "-fno-tree-loop-distribute-patterns", "--param",
                    "tsan-instrument-func-entry-exit=0"});
    }
  }
  // A check build keeps its optimization level and exact arithmetic, whatever the request says.
  for (const std::string& flag : options.flags) {
    if (!check || flag.starts_with("-std=")) flags.push_back(flag);
  }
  return flags;
}

std::vector<std::string> CpuLinkFlags(const CpuToolchain& toolchain, CompileMode mode,
                                      const CpuOptions& options) {
  std::vector<std::string> flags = {"-shared", "--hash-style=gnu", "-z", "norelro",
                                    "-z",      "noexecstack"};
  if (mode == CompileMode::kCheck) {
    // g++ leaves mem* calls of unknown size uninstrumented; the runtime checks them instead.
    flags.insert(flags.end(), {"--wrap=memcpy", "--wrap=memmove", "--wrap=memset"});
  } else if (options.fast_math && !toolchain.libmvec.empty()) {
    flags.insert(flags.end(), {"--as-needed", toolchain.libmvec});
  }
  return flags;
}

bool IsAllowedImport(std::string_view symbol) {
  for (std::string_view prefix : {"fettle_rt_", "__tsan_", "__ubsan_", "__wrap_mem", "_ZGV"}) {
    if (symbol.starts_with(prefix)) return true;
  }
  static const std::vector<std::string_view> kPlain = {
      "__tls_get_addr", "memcpy", "memmove", "memset", "memcmp", "strlen",
      // A kernel that includes assert.h itself gets the C library's.
      "__assert_fail", "_GLOBAL_OFFSET_TABLE_", "_DYNAMIC"};
  static const std::vector<std::string_view> kMath = {
      "acos",   "acosh",    "asin",    "asinh",     "atan",      "atan2",     "atanh", "cbrt",
      "ceil",   "copysign", "cos",     "cosh",      "erf",       "erfc",      "exp",   "exp10",
      "exp2",   "expm1",    "fabs",    "fdim",      "floor",     "fma",       "fmax",  "fmin",
      "fmod",   "frexp",    "hypot",   "ilogb",     "j0",        "j1",        "jn",    "ldexp",
      "lgamma", "llrint",   "llround", "log",       "log10",     "log1p",     "log2",  "logb",
      "lrint",  "lround",   "modf",    "nan",       "nearbyint", "nextafter", "pow",   "remainder",
      "remquo", "rint",     "round",   "roundeven", "scalbln",   "scalbn",    "sin",   "sincos",
      "sinh",   "sqrt",     "tan",     "tanh",      "tgamma",    "trunc",     "y0",    "y1",
      "yn"};
  const auto in = [](const std::vector<std::string_view>& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  if (in(kPlain, symbol) || in(kMath, symbol)) return true;
  return !symbol.empty() && (symbol.back() == 'f' || symbol.back() == 'l') &&
         in(kMath, symbol.substr(0, symbol.size() - 1));
}

}  // namespace fettle
