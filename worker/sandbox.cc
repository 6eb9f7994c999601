// SPDX-License-Identifier: Apache-2.0
#include "worker/sandbox.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "worker/lockdown.h"

namespace fettle {
namespace {

constexpr int kChannelFd = 3;
constexpr const char* kRunnerPlace = "/fettle/fettle-runner";  // Within the sandbox.

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts `command` in its own process group with nothing open but stdio and `child_socket` as
// descriptor 3. Returns an errno.
int Spawn(std::vector<std::string> command, std::vector<std::string> environment, int child_socket,
          bool quiet, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  if (quiet) posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  if (child_socket >= 0) {
    posix_spawn_file_actions_adddup2(&actions, child_socket, kChannelFd);
    posix_spawn_file_actions_addclosefrom_np(&actions, kChannelFd + 1);
  } else {
    posix_spawn_file_actions_addclosefrom_np(&actions, kChannelFd);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> argv = Pointers(command);
  std::vector<char*> envp = Pointers(environment);
  const int error = posix_spawnp(pid, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

ProcessEnd EndFrom(int wait_status, bool under_bubblewrap) {
  ProcessEnd end;
  if (WIFSIGNALED(wait_status)) {
    end.signal = WTERMSIG(wait_status);
  } else {
    end.exit_code = WEXITSTATUS(wait_status);
    // bubblewrap and the runner's own supervisor report a signal as a shell does.
    if (under_bubblewrap && end.exit_code > 128 && end.exit_code < 128 + 65) {
      end.signal = end.exit_code - 128;
      end.exit_code = 0;
    }
  }
  return end;
}

// bubblewrap with its options, up to and including the program.
std::vector<std::string> BubblewrapArguments(const SandboxOptions& options) {
  std::vector<std::string> args = {"bwrap",
                                   "--unshare-user",
                                   "--unshare-pid",
                                   "--unshare-net",
                                   "--unshare-ipc",
                                   "--unshare-uts",
                                   "--unshare-cgroup-try",
                                   "--die-with-parent",
                                   "--new-session",
                                   "--clearenv",
                                   "--hostname",
                                   "fettle",
                                   "--uid",
                                   "65534",
                                   "--gid",
                                   "65534"};
  const auto add = [&args](std::initializer_list<std::string> more) {
    args.insert(args.end(), more);
  };
  add({"--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
       "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"});
  for (const char* path : {"/lib", "/lib64", "/lib32", "/bin"}) {
    std::error_code error;
    const auto link = std::filesystem::read_symlink(path, error);
    if (!error) {
      add({"--symlink", link.string(), path});
    } else if (std::filesystem::is_directory(path, error)) {
      add({"--ro-bind", path, path});
    }
  }
  add({"--proc", "/proc", "--dev", "/dev", "--size", "67108864", "--tmpfs", "/tmp", "--chdir",
       "/tmp"});
  for (const std::string& path : options.read_only_binds) add({"--ro-bind-try", path, path});
  for (const std::string& path : options.device_binds) add({"--dev-bind-try", path, path});
  for (const std::string& variable : options.environment) {
    const std::size_t at = variable.find('=');
    if (at != std::string::npos) {
      add({"--setenv", variable.substr(0, at), variable.substr(at + 1)});
    }
  }
  add({"--ro-bind", options.runner_path, kRunnerPlace, "--"});
  for (const std::string& word : options.wrapper) args.push_back(word);
  const std::string place = kRunnerPlace;
  args.push_back(place);
  return args;
}

std::vector<std::string> CommandLine(const SandboxOptions& options, bool bubblewrap) {
  std::vector<std::string> command;
  if (bubblewrap) {
    command = BubblewrapArguments(options);
  } else {
    for (const std::string& word : options.wrapper) command.push_back(word);
    command.push_back(options.runner_path);
  }
  command.insert(command.end(), {"--channel", fmt::format("{}", kChannelFd), "--memory",
                                 fmt::format("{}", options.memory_bytes)});
  if (!bubblewrap) command.push_back("--unshare");
  command.insert(command.end(), options.runner_args.begin(), options.runner_args.end());
  return command;
}

bool BubblewrapWorks() {
  pid_t pid = -1;
  SandboxOptions probe;
  probe.runner_path = "/usr/bin/true";
  std::vector<std::string> command = BubblewrapArguments(probe);
  if (Spawn(std::move(command), {}, -1, /*quiet=*/true, &pid) != 0) return false;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

SandboxLevel Probe() {
  SandboxLevel level;
  level.bubblewrap = BubblewrapWorks();
  level.seccomp = SeccompAvailable();
  if (!level.bubblewrap) {
    level.namespaces = NamespacesAvailable();
    level.missing =
        "bubblewrap cannot make namespaces here; install package bubblewrap and allow user "
        "namespaces";
  }
  if (!level.seccomp) level.missing += "; this kernel has no seccomp filters";
  return level;
}

// Field `index`, from 0, of a /proc file of numbers after the last ')' (the process name).
std::int64_t ReadField(const std::string& path, int index) {
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::size_t name = text.rfind(')');
  std::istringstream fields(name == std::string::npos ? text : text.substr(name + 1));
  std::string field;
  for (int i = 0; i <= index && fields; ++i) fields >> field;
  std::int64_t value = 0;
  std::from_chars(field.data(), field.data() + field.size(), value);
  return value;
}

std::vector<pid_t> Children(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{0}/task/{0}/children", pid));
  std::vector<pid_t> children;
  for (pid_t child = 0; in >> child;) children.push_back(child);
  return children;
}

// Bytes in unlinked files (memory files) that the process holds open.
std::int64_t OpenMemoryFiles(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  DIR* open = opendir(folder.c_str());
  if (open == nullptr) return 0;
  std::int64_t bytes = 0;
  while (const dirent* entry = readdir(open)) {
    struct stat info {};
    if (stat(fmt::format("{}/{}", folder, entry->d_name).c_str(), &info) == 0 &&
        S_ISREG(info.st_mode) && info.st_nlink == 0) {
      bytes += static_cast<std::int64_t>(info.st_blocks) * 512;
    }
  }
  closedir(open);
  return bytes;
}

void AddTree(pid_t pid, int depth, SandboxUsage& usage) {
  if (depth > 8) return;
  static const std::int64_t page = sysconf(_SC_PAGESIZE);
  usage.memory_bytes += ReadField(fmt::format("/proc/{}/statm", pid), 1) * page;
  usage.memory_bytes += OpenMemoryFiles(pid);
  usage.threads += ReadField(fmt::format("/proc/{}/stat", pid), 17);
  for (const pid_t child : Children(pid)) AddTree(child, depth + 1, usage);
}

}  // namespace

std::string SandboxLevel::name() const {
  std::string text = bubblewrap ? "bubblewrap" : namespaces ? "unshare" : "";
  if (seccomp) text += text.empty() ? "seccomp" : "+seccomp";
  return text.empty() ? "rlimits" : text;
}

const SandboxLevel& sandbox_level() {
  static const SandboxLevel level = Probe();
  return level;
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string ProcessEnd::Describe() const {
  if (signal == 0) return fmt::format("exit code {}", exit_code);
  const char* text = sigdescr_np(signal);
  return fmt::format("{} ({})", SignalName(signal), text == nullptr ? "unknown" : text);
}

absl::StatusOr<std::unique_ptr<SandboxedProcess>> SandboxedProcess::Start(
    const SandboxOptions& options) {
  if (access(options.runner_path.c_str(), X_OK) != 0) {
    return absl::UnavailableError(fmt::format(
        "start the runner: {} is missing or not executable; build target fettle-runner or set the "
        "runner's path",
        options.runner_path));
  }
  const bool bubblewrap = options.use_bubblewrap && sandbox_level().bubblewrap;
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    return absl::UnavailableError(fmt::format("socketpair: {}", std::strerror(errno)));
  }
  std::unique_ptr<SandboxedProcess> process(new SandboxedProcess());
  process->channel_.Reset(sockets[0]);
  process->owner_ =
      std::thread([raw = process.get(), command = CommandLine(options, bubblewrap),
                   environment = bubblewrap ? std::vector<std::string>{} : options.environment,
                   child = sockets[1]]() mutable {
        raw->Own(std::move(command), std::move(environment), child);
      });
  std::unique_lock lock(process->mutex_);
  process->changed_.wait(lock, [&process] { return process->started_; });
  if (process->spawn_error_ != 0) {
    return absl::UnavailableError(fmt::format("start {}: {}",
                                              bubblewrap ? "bwrap" : options.runner_path,
                                              std::strerror(process->spawn_error_)));
  }
  return process;
}

void SandboxedProcess::Own(std::vector<std::string> command, std::vector<std::string> environment,
                           int child_socket) {
  pid_t pid = -1;
  const int error =
      Spawn(std::move(command), std::move(environment), child_socket, /*quiet=*/false, &pid);
  close(child_socket);
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
    spawn_error_ = error;
    pid_ = pid;
  }
  changed_.notify_all();
  if (error != 0) return;
  siginfo_t info{};
  // The zombie keeps its pid until the lock is held, so Kill never hits a stranger.
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);
  kill(-pid, SIGKILL);  // Whatever of the group is left.
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  end_ = EndFrom(status, /*under_bubblewrap=*/true);
  changed_.notify_all();
}

SandboxedProcess::~SandboxedProcess() {
  Kill();
  if (owner_.joinable()) owner_.join();
}

std::optional<ProcessEnd> SandboxedProcess::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

std::optional<ProcessEnd> SandboxedProcess::WaitEnd(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return end_.has_value(); });
  return end_;
}

void SandboxedProcess::Kill() {
  std::unique_lock lock(mutex_);
  if (!started_ || spawn_error_ != 0) return;
  if (!end_) kill(-pid_, SIGKILL);
  changed_.wait(lock, [this] { return end_.has_value(); });
}

SandboxUsage SandboxedProcess::Usage() const {
  const std::lock_guard lock(mutex_);
  SandboxUsage usage;
  if (!end_ && pid_ > 0) AddTree(pid_, 0, usage);
  return usage;
}

}  // namespace fettle
