// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/run_command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "store/files.h"

extern char** environ;

namespace fettle {
namespace {

constexpr std::size_t kMaxOutputBytes = 16U << 20;
constexpr std::chrono::milliseconds kStopLook{100};  // Between looks whether it is to stop.

using std::chrono::steady_clock;

struct Pipe {
  Fd read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

std::vector<char*> PlainEnvironment() {
  std::vector<char*> plain;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    for (const std::string_view begin : {"PATH=", "HOME=", "USER=", "LOGNAME=", "SHELL=", "LANG=",
                                         "TZ=", "LD_LIBRARY_PATH=", "SLURM_", "SBATCH_"}) {
      if (std::string_view(*variable).starts_with(begin)) {
        plain.push_back(*variable);
        break;
      }
    }
  }
  plain.push_back(nullptr);
  return plain;
}

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& command, int out, int err) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;  // The server blocks its own signals.
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  std::vector<char*> variables = PlainEnvironment();
  const int error =
      posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return ErrnoStatus(error, fmt::format("start {}", command.front()));
}

// Appends what can be read at once; false at the end of the stream.
bool Drain(int fd, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t size = read(fd, buffer.data(), buffer.size());
  if (size < 0) return errno == EINTR || errno == EAGAIN;
  if (text.size() < kMaxOutputBytes) text.append(buffer.data(), static_cast<std::size_t>(size));
  return size > 0;
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command,
                                         std::chrono::milliseconds limit, std::stop_token stop) {
  const auto end = steady_clock::now() + limit;
  FETTLE_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  FETTLE_ASSIGN_OR_RETURN(Pipe err, MakePipe());
  FETTLE_ASSIGN_OR_RETURN(const pid_t pid, Spawn(command, out.write.get(), err.write.get()));
  out.write = Fd();
  err.write = Fd();
  CommandResult result;
  std::array<pollfd, 2> streams = {pollfd{out.read.get(), POLLIN, 0},
                                   pollfd{err.read.get(), POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&result.out, &result.err};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - steady_clock::now());
    const bool stopped = stop.stop_requested();
    if (stopped || left.count() <= 0) {
      kill(-pid, SIGKILL);
      WaitFor(pid);
      if (stopped) return absl::CancelledError(fmt::format("{}: stopped", command.front()));
      return absl::DeadlineExceededError(
          fmt::format("{}: no end within {} ms", command.front(), limit.count()));
    }
    const auto wait = std::min(left, kStopLook);
    if (poll(streams.data(), streams.size(), static_cast<int>(wait.count())) < 0) continue;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].fd >= 0 && streams[i].revents != 0 && !Drain(streams[i].fd, *texts[i])) {
        streams[i].fd = -1;
      }
    }
  }
  result.exit_code = WaitFor(pid);
  return result;
}

}  // namespace fettle
