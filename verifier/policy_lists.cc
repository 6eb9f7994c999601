// SPDX-License-Identifier: Apache-2.0
#include "verifier/policy_lists.h"

#include <algorithm>
#include <array>
#include <set>

namespace fettle {
namespace {

using Names = std::set<std::string_view>;

bool AllDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "-DNAME" or "-DNAME=VALUE" without anything that a macro definition does not need.
bool IsDefine(std::string_view option) {
  if (!option.starts_with("-D") || option.size() < 3) return false;
  const std::string_view name =
      option.substr(2, option.find('=') == std::string_view::npos ? std::string_view::npos
                                                                  : option.find('=') - 2);
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                  (c >= 'A' && c <= 'Z');
         });
}

}  // namespace

bool IsAllowedInclude(std::string_view name) {
  static const Names kNames = {"algorithm",
                               "array",
                               "assert.h",
                               "bit",
                               "cassert",
                               "cfloat",
                               "climits",
                               "cmath",
                               "complex",
                               "concepts",
                               "cooperative_groups.h",
                               "cstddef",
                               "cstdint",
                               "cstdio",
                               "cstring",
                               "cuComplex.h",
                               "cub/cub.cuh",
                               "cublas_v2.h",
                               "cuda.h",
                               "cuda_bf16.h",
                               "cuda_fp16.h",
                               "cuda_fp4.h",
                               "cuda_fp6.h",
                               "cuda_fp8.h",
                               "cuda_pipeline.h",
                               "cuda_pipeline_primitives.h",
                               "cuda_runtime.h",
                               "cuda_runtime_api.h",
                               "device_functions.h",
                               "device_launch_parameters.h",
                               "float.h",
                               "functional",
                               "initializer_list",
                               "limits",
                               "limits.h",
                               "math.h",
                               "math_constants.h",
                               "mma.h",
                               "numeric",
                               "stdbool.h",
                               "stddef.h",
                               "stdint.h",
                               "stdio.h",
                               "string.h",
                               "tuple",
                               "type_traits",
                               "utility",
                               "vector_functions.h",
                               "vector_types.h",
                               "fettle_shim.h"};
  if (name.find("..") != std::string_view::npos || name.starts_with('/')) return false;
  static constexpr std::array<std::string_view, 7> kFolders = {
      "cooperative_groups/", "cuda/", "cub/", "hip/", "rocwmma/", "crt/", "hipcub/"};
  return kNames.contains(name) ||
         std::any_of(kFolders.begin(), kFolders.end(),
                     [name](std::string_view folder) { return name.starts_with(folder); });
}

bool IsAllowedPragma(std::string_view first, std::string_view second) {
  static const Names kAlone = {"unroll",
                               "nounroll",
                               "once",
                               "nv_diag_suppress",
                               "nv_diag_default",
                               "nv_diag_warning",
                               "nv_diagnostic",
                               "nv_exec_check_disable",
                               "hd_warning_disable",
                               "diag_suppress",
                               "diag_default",
                               "push_macro",
                               "pop_macro",
                               "STDC",
                               "region",
                               "endregion"};
  static const Names kGcc = {"unroll", "ivdep", "diagnostic"};
  static const Names kClang = {"loop", "diagnostic", "fp"};
  if (first == "GCC") return kGcc.contains(second);
  if (first == "clang") return kClang.contains(second);
  return kAlone.contains(first);
}

bool IsAllowedOption(std::string_view option, Vendor vendor) {
  static const Names kAny = {"-O0",        "-O1",        "-O2",         "-O3",        "-std=c++17",
                             "-std=c++20", "-std=c++14", "--std=c++17", "--std=c++20"};
  static const Names kCpu = {"-funroll-loops", "-fno-unroll-loops", "-fno-tree-vectorize"};
  static const Names kNvidia = {"--fmad=true",
                                "--fmad=false",
                                "-fmad=true",
                                "-fmad=false",
                                "--extra-device-vectorization",
                                "-lineinfo",
                                "--generate-line-info",
                                "--restrict"};
  static const Names kAmd = {"-ffp-contract=fast", "-ffp-contract=on", "-ffp-contract=off",
                             "-mcumode",           "-mno-cumode",      "-funroll-loops",
                             "-fno-unroll-loops"};
  if (kAny.contains(option) || IsDefine(option)) return true;
  switch (vendor) {
    case Vendor::kCpu:
      return kCpu.contains(option);
    case Vendor::kNvidia:
      for (const std::string_view prefix : {"--maxrregcount=", "-maxrregcount="}) {
        if (option.starts_with(prefix)) return AllDigits(option.substr(prefix.size()));
      }
      return kNvidia.contains(option);
    case Vendor::kAmd:
      for (const std::string_view prefix : {"--gpu-max-threads-per-block="}) {
        if (option.starts_with(prefix)) return AllDigits(option.substr(prefix.size()));
      }
      return kAmd.contains(option);
  }
  return false;
}

bool IsStandardDirective(std::string_view name) {
  static const Names kNames = {"",       "define",  "elif",   "elifdef", "elifndef",
                               "else",   "endif",   "error",  "if",      "ifdef",
                               "ifndef", "include", "pragma", "undef",   "warning"};
  return kNames.contains(name);
}

bool IsBannedAttribute(std::string_view name) {
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) {
    name = name.substr(2, name.size() - 4);
  }
  static const Names kNames = {"constructor", "destructor",    "ifunc",         "alias",
                               "weakref",     "section",       "optimize",      "target",
                               "cleanup",     "target_clones", "init_priority", "symver",
                               "copy",        "error",         "simd",          "retain"};
  return kNames.contains(name);
}

bool IsHostFunction(std::string_view name) {
  static const Names kNames = {"system",
                               "popen",
                               "fork",
                               "vfork",
                               "clone",
                               "execl",
                               "execle",
                               "execlp",
                               "execv",
                               "execve",
                               "execvp",
                               "execvpe",
                               "posix_spawn",
                               "posix_spawnp",
                               "exit",
                               "_exit",
                               "_Exit",
                               "quick_exit",
                               "atexit",
                               "at_quick_exit",
                               "on_exit",
                               "kill",
                               "raise",
                               "signal",
                               "sigaction",
                               "sigprocmask",
                               "setjmp",
                               "longjmp",
                               "sigsetjmp",
                               "siglongjmp",
                               "ptrace",
                               "syscall",
                               "prctl",
                               "ioctl",
                               "open",
                               "open64",
                               "openat",
                               "creat",
                               "close",
                               "read",
                               "pread",
                               "write",
                               "pwrite",
                               "lseek",
                               "fopen",
                               "fopen64",
                               "freopen",
                               "fdopen",
                               "fclose",
                               "fread",
                               "fwrite",
                               "fgets",
                               "fputs",
                               "fscanf",
                               "scanf",
                               "getline",
                               "tmpfile",
                               "mkstemp",
                               "opendir",
                               "readdir",
                               "readlink",
                               "unlink",
                               "remove",
                               "rename",
                               "link",
                               "symlink",
                               "chmod",
                               "chown",
                               "mkdir",
                               "rmdir",
                               "chdir",
                               "chroot",
                               "mount",
                               "truncate",
                               "ftruncate",
                               "stat",
                               "fstat",
                               "access",
                               "dup",
                               "dup2",
                               "pipe",
                               "poll",
                               "select",
                               "socket",
                               "connect",
                               "bind",
                               "listen",
                               "accept",
                               "send",
                               "recv",
                               "sendto",
                               "recvfrom",
                               "sendmsg",
                               "recvmsg",
                               "socketpair",
                               "dlopen",
                               "dlsym",
                               "dlmopen",
                               "dladdr",
                               "dl_iterate_phdr",
                               "mmap",
                               "mmap64",
                               "munmap",
                               "mprotect",
                               "mremap",
                               "madvise",
                               "memfd_create",
                               "shm_open",
                               "brk",
                               "sbrk",
                               "process_vm_readv",
                               "process_vm_writev",
                               "getenv",
                               "secure_getenv",
                               "setenv",
                               "putenv",
                               "unsetenv",
                               "pthread_create",
                               "pthread_kill",
                               "thrd_create",
                               "sched_setaffinity",
                               "setpriority",
                               "setrlimit",
                               "sleep",
                               "usleep",
                               "nanosleep",
                               "clock_nanosleep",
                               "clock_gettime",
                               "clock_settime",
                               "gettimeofday",
                               "time",
                               "getpid",
                               "getppid",
                               "waitpid"};
  return kNames.contains(name);
}

bool IsBannedBuiltin(std::string_view name) {
  if (!name.starts_with("__builtin_")) return false;
  const std::string_view rest = name.substr(10);
  static const Names kNames = {"apply",
                               "apply_args",
                               "return",
                               "longjmp",
                               "setjmp",
                               "eh_return",
                               "return_address",
                               "extract_return_addr",
                               "frob_return_addr",
                               "frame_address",
                               "unwind_init",
                               "init_trampoline",
                               "dwarf_cfa",
                               "__clear_cache"};
  return kNames.contains(rest) || IsHostFunction(rest);
}

}  // namespace fettle
