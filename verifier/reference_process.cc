// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "verifier/reference.h"

namespace fettle {
namespace {

constexpr int kChildChannel = 3;

class PlainReferenceProcess final : public ReferenceProcess {
 public:
  PlainReferenceProcess(pid_t pid, int channel) : pid_(pid), channel_(channel) {}
  ~PlainReferenceProcess() override {
    close(channel_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  int channel() const override { return channel_; }
  std::string Ending() override {
    for (int i = 0; i < 50 && pid_ > 0; ++i) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        ending_ = WIFSIGNALED(status) ? fmt::format("SIG{} ({})", sigabbrev_np(WTERMSIG(status)),
                                                    strsignal(WTERMSIG(status)))
                                      : fmt::format("exit code {}", WEXITSTATUS(status));
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    return ending_;
  }

 private:
  pid_t pid_;
  int channel_;
  std::string ending_ = "still running";
};

absl::StatusOr<std::unique_ptr<ReferenceProcess>> StartPlain(const std::string& program) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(fmt::format("make a socket: {}", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // dup2 onto itself would keep close-on-exec, so go through another number.
  int source = ends[1];
  if (source == kChildChannel) source = fcntl(ends[1], F_DUPFD_CLOEXEC, kChildChannel + 1);
  posix_spawn_file_actions_adddup2(&actions, source, kChildChannel);
  std::string name = program, flag = "--reference", channel = std::to_string(kChildChannel);
  char* argv[] = {name.data(), flag.data(), channel.data(), nullptr};
  char* environment[] = {nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environment);
  posix_spawn_file_actions_destroy(&actions);
  if (source != ends[1]) close(source);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return absl::UnavailableError(fmt::format("start {}: {}", program, std::strerror(error)));
  }
  return std::make_unique<PlainReferenceProcess>(pid, ends[0]);
}

}  // namespace

StartReference PlainReferenceStarter(std::string program) {
  return [program = std::move(program)] { return StartPlain(program); };
}

}  // namespace fettle
