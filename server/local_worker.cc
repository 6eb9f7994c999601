// SPDX-License-Identifier: Apache-2.0
#include "server/local_worker.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fettle {
namespace {

constexpr std::chrono::milliseconds kFirstPause{200};
constexpr std::chrono::milliseconds kLongestPause{5'000};
constexpr std::chrono::milliseconds kHealthyAfter{10'000};
constexpr std::chrono::milliseconds kTermPatience{700};
constexpr int kHopelessStarts = 4;

}  // namespace

LocalWorker::LocalWorker(std::vector<std::string> command)
    : command_(std::move(command)), thread_([this] { Supervise(); }) {
  pthread_setname_np(thread_.native_handle(), "local-worker");
}

LocalWorker::~LocalWorker() { Stop(); }

pid_t LocalWorker::pid() const {
  const std::lock_guard lock(mutex_);
  return pid_;
}

bool LocalWorker::gave_up() const {
  const std::lock_guard lock(mutex_);
  return gave_up_;
}

// The child's parent-death signal belongs to the thread that forks, so only the supervising thread,
// which lives as long as the server, calls this.
pid_t LocalWorker::Spawn() const {
  std::vector<char*> arguments;
  for (const std::string& argument : command_) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child != 0) return child;
  // Only async-signal-safe calls from here.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  setpgid(0, 0);  // A Ctrl-C at the terminal reaches the server, which ends the worker.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  close_range(3, ~0U, 0);
  execv(arguments[0], arguments.data());
  _exit(127);
}

void LocalWorker::Supervise() {
  std::chrono::milliseconds pause = kFirstPause;
  int refused = 0;  // Starts in a row that ended by themselves with an error.
  while (true) {
    const auto started = std::chrono::steady_clock::now();
    const pid_t child = Spawn();
    int status = 0;
    if (child > 0) {
      {
        const std::lock_guard lock(mutex_);
        pid_ = child;
        if (stopping_) kill(child, SIGTERM);
      }
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      const std::lock_guard lock(mutex_);
      pid_ = 0;
      if (!stopping_) {
        spdlog::warn("local_worker_died pid={} status={} signal={}", child,
                     WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                     WIFSIGNALED(status) ? WTERMSIG(status) : 0);
      }
    } else {
      spdlog::error("local_worker_not_started command={} error={}", command_.front(),
                    std::strerror(errno));
    }
    const bool healthy = std::chrono::steady_clock::now() - started > kHealthyAfter;
    if (healthy) pause = kFirstPause;
    const bool error = child > 0 && !healthy && WIFEXITED(status) && WEXITSTATUS(status) != 0;
    refused = error ? refused + 1 : 0;
    std::unique_lock lock(mutex_);
    wake_.notify_all();
    if (refused >= kHopelessStarts && !stopping_) {
      gave_up_ = true;
      spdlog::error(
          "local_worker_left exit_code={} remedy=\"{} starts ended at once; its own lines above "
          "say "
          "why; restart the server once that is mended, or start `fettle worker` by hand\"",
          WEXITSTATUS(status), refused);
      return;
    }
    if (wake_.wait_for(lock, pause, [this] { return stopping_; })) return;
    pause = std::min(2 * pause, kLongestPause);
  }
}

void LocalWorker::Stop() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    if (pid_ > 0) kill(pid_, SIGTERM);
    wake_.notify_all();
    if (!wake_.wait_for(lock, kTermPatience, [this] { return pid_ == 0; })) {
      kill(-pid_, SIGKILL);  // Its whole group.
    }
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace fettle
