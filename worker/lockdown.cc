// SPDX-License-Identifier: Apache-2.0
#include "worker/lockdown.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <type_traits>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

struct ReleaseFilter {
  void operator()(void* filter) const { seccomp_release(filter); }
};

absl::Status SystemError(const char* what, int error) {
  return absl::InternalError(fmt::format("{}: {}", what, std::strerror(error)));
}

absl::Status Limit(__rlimit_resource_t resource, std::int64_t value, const char* name) {
  const auto limit = static_cast<rlim_t>(value);
  const rlimit both{limit, limit};
  if (setrlimit(resource, &both) != 0) return SystemError(name, errno);
  return absl::OkStatus();
}

// Calls that trusted code and a well-behaved kernel make.
constexpr std::array kAllowed = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendmsg),
    SCMP_SYS(recvfrom),
    SCMP_SYS(sendto),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(close),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(stat),
    SCMP_SYS(statx),
    SCMP_SYS(lseek),
    SCMP_SYS(fcntl),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(memfd_create),
    SCMP_SYS(ftruncate),
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(madvise),
    SCMP_SYS(mremap),
    SCMP_SYS(futex),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getcpu),
    SCMP_SYS(getrandom),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getrusage),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(membarrier),
    SCMP_SYS(tgkill),
    SCMP_SYS(timer_create),
    SCMP_SYS(timer_settime),
    SCMP_SYS(timer_delete),
    SCMP_SYS(setitimer),
    SCMP_SYS(prlimit64),
};

// Calls that only an attack or a broken kernel makes: the process dies at once, so that the verdict
// names the cause.
constexpr std::array kDeadly = {
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(socket),
    SCMP_SYS(socketpair),
    SCMP_SYS(connect),
    SCMP_SYS(bind),
    SCMP_SYS(listen),
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(kexec_load),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(reboot),
    SCMP_SYS(kill),
    SCMP_SYS(tkill),
    SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
};

constexpr std::uint64_t kThreadFlags = CLONE_THREAD | CLONE_VM | CLONE_SIGHAND;

absl::Status Add(void* filter, std::uint32_t action, int call) {
  const int error = seccomp_rule_add(filter, action, call, 0);
  // A call that this architecture lacks is no loss.
  if (error != 0 && error != -EDOM && error != -EFAULT && error != -EEXIST) {
    return SystemError("seccomp rule", -error);
  }
  return absl::OkStatus();
}

absl::Status AddArgument(void* filter, std::uint32_t action, int call, scmp_arg_cmp argument) {
  const int error = seccomp_rule_add(filter, action, call, 1, argument);
  return error == 0 ? absl::OkStatus() : SystemError("seccomp rule", -error);
}

// The filter for a process in which candidate code itself runs.
absl::Status FillHostFilter(void* filter) {
  for (const int call : kAllowed) FETTLE_RETURN_IF_ERROR(Add(filter, SCMP_ACT_ALLOW, call));
  for (const int call : kDeadly) {
    FETTLE_RETURN_IF_ERROR(Add(filter, SCMP_ACT_KILL_PROCESS, call));
  }
  // Threads, but no processes. clone3 hides its flags behind a pointer; without it libc uses clone.
  FETTLE_RETURN_IF_ERROR(Add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3)));
  FETTLE_RETURN_IF_ERROR(AddArgument(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone),
                                     SCMP_A0(SCMP_CMP_MASKED_EQ, kThreadFlags, kThreadFlags)));
  FETTLE_RETURN_IF_ERROR(AddArgument(filter, SCMP_ACT_KILL_PROCESS, SCMP_SYS(clone),
                                     SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)));
  // Shared memory would escape RLIMIT_DATA.
  FETTLE_RETURN_IF_ERROR(AddArgument(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap),
                                     SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_SHARED, 0)));
  // Loading a code object opens libraries, for reading.
  FETTLE_RETURN_IF_ERROR(
      AddArgument(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat),
                  SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)));
  FETTLE_RETURN_IF_ERROR(
      AddArgument(filter, SCMP_ACT_ALLOW, SCMP_SYS(open),
                  SCMP_A1(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY)));
  return absl::OkStatus();
}

// The filter for a process that only drives a device: the driver needs most calls.
absl::Status FillDriverFilter(void* filter) {
  for (const int call : {SCMP_SYS(fork),
                         SCMP_SYS(vfork),
                         SCMP_SYS(execve),
                         SCMP_SYS(execveat),
                         SCMP_SYS(ptrace),
                         SCMP_SYS(process_vm_readv),
                         SCMP_SYS(process_vm_writev),
                         SCMP_SYS(mount),
                         SCMP_SYS(umount2),
                         SCMP_SYS(unshare),
                         SCMP_SYS(setns),
                         SCMP_SYS(pivot_root),
                         SCMP_SYS(chroot),
                         SCMP_SYS(bpf),
                         SCMP_SYS(perf_event_open),
                         SCMP_SYS(io_uring_setup),
                         SCMP_SYS(keyctl),
                         SCMP_SYS(add_key),
                         SCMP_SYS(kexec_load),
                         SCMP_SYS(init_module),
                         SCMP_SYS(finit_module),
                         SCMP_SYS(reboot)}) {
    FETTLE_RETURN_IF_ERROR(Add(filter, SCMP_ACT_KILL_PROCESS, call));
  }
  return absl::OkStatus();
}

bool WriteFile(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return written;
}

// Waits for `child`, reaping whatever else ends meanwhile, and ends as it ended. Lets go of the
// channel, so that its closing shows who closed it.
[[noreturn]] void Supervise(pid_t child) {
  close_range(3, ~0U, 0);
  int status = 0;
  for (pid_t ended = -1; ended != child;) {
    ended = wait(&status);
    if (ended < 0 && errno != EINTR) break;
  }
  _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

absl::Status Fork() {
  const pid_t child = fork();
  if (child < 0) return SystemError("fork", errno);
  if (child > 0) Supervise(child);
  return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 ? absl::OkStatus()
                                                        : SystemError("parent death", errno);
}

}  // namespace

bool SeccompAvailable() {
  return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0 &&
         syscall(SYS_seccomp, 2 /* SECCOMP_GET_ACTION_AVAIL */, 0, [] {
           static const std::uint32_t action = 0x80000000U;  // KILL_PROCESS.
           return &action;
         }()) == 0;
}

bool NamespacesAvailable() {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID) == 0 ? 0 : 1);
  if (child < 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

absl::Status EnterNamespaces() {
  const std::string uid_map = fmt::format("65534 {} 1", getuid());
  const std::string gid_map = fmt::format("65534 {} 1", getgid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
              CLONE_NEWNS) != 0) {
    return absl::UnavailableError(fmt::format("unshare: {}", std::strerror(errno)));
  }
  if (!WriteFile("/proc/self/setgroups", "deny") || !WriteFile("/proc/self/uid_map", uid_map) ||
      !WriteFile("/proc/self/gid_map", gid_map)) {
    return absl::UnavailableError("map the user into its namespace");
  }
  // The first process of a pid namespace ignores signals that it has no handler for, so the runner
  // is its second.
  FETTLE_RETURN_IF_ERROR(Fork());
  // Own /proc, and empty places where others leave files. Failing here leaves less, not nothing.
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0) {
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
    for (const char* path : {"/tmp", "/home", "/root", "/run", "/srv"}) {
      mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m");
    }
  }
  if (chdir("/tmp") != 0) return SystemError("chdir /tmp", errno);
  return Fork();
}

absl::Status ApplyLimits(const LockdownOptions& options) {
  FETTLE_RETURN_IF_ERROR(Limit(RLIMIT_CORE, 0, "limit core size"));
  FETTLE_RETURN_IF_ERROR(Limit(RLIMIT_CPU, options.cpu_seconds, "limit cpu time"));
  if (options.hosts_candidate) {
    FETTLE_RETURN_IF_ERROR(Limit(RLIMIT_NOFILE, 128, "limit open files"));
    FETTLE_RETURN_IF_ERROR(Limit(RLIMIT_NPROC, 256, "limit processes"));
  }
  if (options.memory_bytes > 0) {
    // The cpu device reserves address space far beyond what it uses, so the limit is on private
    // writable memory, not on address space.
    FETTLE_RETURN_IF_ERROR(Limit(RLIMIT_DATA, options.memory_bytes, "limit memory"));
    FETTLE_RETURN_IF_ERROR(Limit(RLIMIT_FSIZE, options.memory_bytes, "limit file size"));
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return SystemError("no_new_privs", errno);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return SystemError("parent death", errno);
  return absl::OkStatus();
}

absl::Status ApplyFinalFilter(const LockdownOptions& options) {
  if (!SeccompAvailable()) return absl::OkStatus();
  const std::unique_ptr<void, ReleaseFilter> filter(
      seccomp_init(options.hosts_candidate ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW));
  if (filter == nullptr) return absl::InternalError("seccomp_init failed");
  // Also the threads that exist already.
  if (const int error = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_TSYNC, 1); error != 0) {
    return SystemError("seccomp for all threads", -error);
  }
  FETTLE_RETURN_IF_ERROR(options.hosts_candidate ? FillHostFilter(filter.get())
                                                 : FillDriverFilter(filter.get()));
  const int error = seccomp_load(filter.get());
  return error == 0 ? absl::OkStatus() : SystemError("load seccomp filter", -error);
}

}  // namespace fettle
