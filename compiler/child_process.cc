// SPDX-License-Identifier: Apache-2.0
#include "compiler/child_process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { Close(); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(fmt::format("make a pipe: {}", std::strerror(errno)));
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// A descriptor that reads `text` from its start.
absl::StatusOr<Fd> InputOf(const std::string& text) {
  Fd fd(text.empty() ? open("/dev/null", O_RDONLY | O_CLOEXEC)
                     : memfd_create("fettle-input", MFD_CLOEXEC));
  std::size_t written = 0;
  while (fd.open() && written < text.size()) {
    const ssize_t n = write(fd.get(), text.data() + written, text.size() - written);
    if (n <= 0) break;
    written += static_cast<std::size_t>(n);
  }
  if (!fd.open() || written < text.size() || (!text.empty() && lseek(fd.get(), 0, SEEK_SET) != 0)) {
    return absl::ResourceExhaustedError(
        fmt::format("prepare a child's input: {}", std::strerror(errno)));
  }
  return fd;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  for (const char* folder : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
    const std::string path = folder + name;
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return name;
}

// What the child needs between fork and exec, prepared before, since only async-signal-safe calls
// are allowed there.
struct Launchpad {
  std::string program;
  std::vector<char*> argv, environment;
  const char* working_dir = nullptr;
  int input_fd = -1, output_fd = -1;
  struct Limit {
    int resource;
    rlimit value;
  };
  std::vector<Limit> limits;
  sigset_t signal_mask;
  volatile int failed_errno = 0;  // Set by the child, which shares our memory until it execs.
};

[[noreturn]] void FailChild(Launchpad& pad) {
  pad.failed_errno = errno == 0 ? EINVAL : errno;
  _exit(127);
}

[[noreturn]] void EnterChild(Launchpad& pad) {
  errno = 0;
  if (setsid() < 0) FailChild(pad);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(pad.input_fd, 0) < 0 || dup2(pad.output_fd, 1) < 0 || dup2(pad.output_fd, 2) < 0) {
    FailChild(pad);
  }
  for (const Launchpad::Limit& limit : pad.limits) {
    if (setrlimit(static_cast<__rlimit_resource>(limit.resource), &limit.value) != 0) {
      FailChild(pad);
    }
  }
  if (pad.working_dir != nullptr && chdir(pad.working_dir) != 0) FailChild(pad);
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    sigaction(number, &standard, nullptr);
  }
  sigprocmask(SIG_SETMASK, &pad.signal_mask, nullptr);
  execve(pad.program.c_str(), pad.argv.data(), pad.environment.data());
  FailChild(pad);
}

// vfork: the child borrows our address space, so starting it costs the same however large we are,
// and setrlimit acts on the child alone. Signals are blocked so that no handler of ours runs there.
__attribute__((noinline)) pid_t StartChild(Launchpad& pad) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &pad.signal_mask);
  const sigset_t ours = pad.signal_mask;
  sigemptyset(&pad.signal_mask);
  const pid_t pid = vfork();
  if (pid == 0) EnterChild(pad);
  const int saved = errno;
  pthread_sigmask(SIG_SETMASK, &ours, nullptr);
  errno = saved;
  return pid;
}

void AddLimit(Launchpad& pad, int resource, std::int64_t value) {
  if (value <= 0) return;
  rlimit now = {};
  getrlimit(static_cast<__rlimit_resource>(resource), &now);
  const rlim_t wanted = std::min(static_cast<rlim_t>(value), now.rlim_max);
  // SIGXCPU first, so that the program can say what ended it.
  const rlim_t most = resource == RLIMIT_CPU ? std::min(wanted + 1, now.rlim_max) : wanted;
  pad.limits.push_back({resource, {wanted, most}});
}

// Collects the child's output until it ends, its time is up, or it is to be stopped.
class Pump {
 public:
  Pump(const ChildCommand& command, pid_t pid, Fd output, ChildResult& result)
      : command_(command), pid_(pid), output_(std::move(output)), result_(result) {
    fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    exit_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  }

  // Returns true when `stop` ended it.
  bool Run(const std::stop_token& stop) {
    const Fd wake(eventfd(0, EFD_CLOEXEC));
    const std::stop_callback on_stop(stop, [&wake] {
      const std::uint64_t one = 1;
      if (write(wake.get(), &one, sizeof one) < 0) return;  // Poll's timeout covers it.
    });
    const Clock::time_point start = Clock::now();
    for (;;) {
      if (stop.stop_requested()) return true;
      int timeout = exit_.open() ? 500 : 5;
      if (command_.limits.wall.count() > 0) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            start + command_.limits.wall - Clock::now());
        if (left.count() <= 0) {
          result_.timed_out = true;
          return false;
        }
        timeout = static_cast<int>(std::min<std::int64_t>(timeout, left.count() + 1));
      }
      pollfd fds[] = {
          {output_.get(), POLLIN, 0}, {exit_.get(), POLLIN, 0}, {wake.get(), POLLIN, 0}};
      poll(fds, 3, timeout);
      if ((fds[0].revents & (POLLIN | POLLHUP)) != 0) Drain();
      if ((fds[1].revents & POLLIN) != 0 || (!exit_.open() && HasEnded())) {
        Drain();
        return false;
      }
    }
  }

 private:
  bool HasEnded() const {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == pid_;
  }

  void Drain() {
    char chunk[16384];
    ssize_t n;
    while (output_.open() && (n = read(output_.get(), chunk, sizeof chunk)) != 0) {
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return;
      const std::size_t room =
          static_cast<std::size_t>(command_.limits.output_bytes) - result_.output.size();
      const std::size_t kept = std::min(room, static_cast<std::size_t>(n));
      result_.output.append(chunk, kept);
      result_.output_truncated |= kept < static_cast<std::size_t>(n);
    }
    output_.Close();
  }

  const ChildCommand& command_;
  pid_t pid_;
  Fd output_, exit_;
  ChildResult& result_;
};

void Reap(pid_t pid, ChildResult& result) {
  kill(-pid, SIGKILL);  // Whatever it left behind, and itself after a time-out.
  int status = 0;
  rusage usage = {};
  while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  const auto span = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  result.cpu_time = span(usage.ru_utime) + span(usage.ru_stime);
  result.max_rss_bytes = usage.ru_maxrss * 1024;
}

}  // namespace

std::string ChildResult::Ending() const {
  if (timed_out) return "the time limit";
  if (signal != 0) return fmt::format("signal {} ({})", signal, strsignal(signal));
  return fmt::format("exit code {}", exit_code);
}

absl::StatusOr<ChildResult> RunChild(const ChildCommand& command, std::stop_token stop) {
  FETTLE_CHECK(!command.argv.empty());
  if (stop.stop_requested()) {
    return absl::CancelledError(fmt::format("run {}: stopped before it began", command.argv[0]));
  }
  FETTLE_ASSIGN_OR_RETURN(Fd input, InputOf(command.input));
  FETTLE_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  Launchpad pad;
  pad.program = FindProgram(command.argv[0]);
  pad.argv = Pointers(command.argv);
  pad.environment = Pointers(command.environment);
  if (!command.working_dir.empty()) pad.working_dir = command.working_dir.c_str();
  pad.input_fd = input.get();
  pad.output_fd = output.write.get();
  pad.limits.push_back({RLIMIT_CORE, {0, 0}});
  AddLimit(pad, RLIMIT_CPU, command.limits.cpu_seconds);
  AddLimit(pad, RLIMIT_AS, command.limits.address_space_bytes);
  AddLimit(pad, RLIMIT_FSIZE, command.limits.file_bytes);
  AddLimit(pad, RLIMIT_NOFILE, command.limits.open_files);

  ChildResult result;
  const Clock::time_point start = Clock::now();
  const pid_t pid = StartChild(pad);
  if (pid < 0) {
    return absl::ResourceExhaustedError(
        fmt::format("start {}: {}", pad.program, std::strerror(errno)));
  }
  output.write.Close();
  if (pad.failed_errno != 0) {
    Reap(pid, result);
    return absl::UnavailableError(
        fmt::format("start {}: {}", pad.program, std::strerror(pad.failed_errno)));
  }
  const bool stopped = Pump(command, pid, std::move(output.read), result).Run(stop);
  Reap(pid, result);
  result.elapsed = Clock::now() - start;
  if (stopped) return absl::CancelledError(fmt::format("run {}: stopped", pad.program));
  return result;
}

std::string FindOnPath(const std::string& name, const std::vector<std::string>& more) {
  const auto usable = [](const std::string& path) {
    std::error_code error;
    return access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, error);
  };
  if (name.find('/') != std::string::npos) return usable(name) ? name : "";
  std::vector<std::string> folders;
  const char* path = std::getenv("PATH");
  std::istringstream words(path == nullptr ? "" : path);
  for (std::string folder; std::getline(words, folder, ':');) folders.push_back(folder);
  folders.insert(folders.end(), more.begin(), more.end());
  for (const std::string& folder : folders) {
    if (folder.starts_with('/') && usable(folder + "/" + name)) return folder + "/" + name;
  }
  return "";
}

}  // namespace fettle
