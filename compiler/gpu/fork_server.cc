// SPDX-License-Identifier: Apache-2.0
#include "compiler/gpu/fork_server.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr int kControlFd = 3;                       // As compiled_main.cc has it.
constexpr std::chrono::seconds kStartLimit{60};     // A cold library on a busy disk.
constexpr std::chrono::seconds kEndGrace{10};       // Past the child's own wall limit.
constexpr std::chrono::milliseconds kStopPoll{20};  // How often `stop` is looked at.

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

absl::StatusOr<std::pair<Fd, Fd>> SocketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::ResourceExhaustedError(fmt::format("open a socket: {}", std::strerror(errno)));
  }
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

std::vector<char*> Raw(std::vector<std::string>& strings) {
  std::vector<char*> raw;
  for (std::string& text : strings) raw.push_back(text.data());
  raw.push_back(nullptr);
  return raw;
}

// 0 and the process, or an errno.
int Spawn(std::vector<std::string> argv, std::vector<std::string> environment, int control,
          pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, control, kControlFd);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  const int error = posix_spawnp(&pid, argv[0].c_str(), &actions, &attributes, Raw(argv).data(),
                                 Raw(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Waits until `fd` can be read; false after `limit` or when `stop` is requested.
bool WaitReadable(int fd, std::chrono::steady_clock::time_point until,
                  const std::stop_token& stop) {
  while (!stop.stop_requested() && std::chrono::steady_clock::now() < until) {
    pollfd wait{fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(kStopPoll.count())) > 0) return true;
  }
  return false;
}

class ForkServerImpl final : public ForkServer {
 public:
  ForkServerImpl(Fd control, std::thread keeper, pid_t pid)
      : control_(std::move(control)), keeper_(std::move(keeper)), pid_(pid) {}

  ~ForkServerImpl() override {
    control_.reset();  // It ends when its control socket closes.
    keeper_.join();
  }

  const rtc::Hello& hello() const override { return hello_; }

  absl::Status ReadHello() {
    const auto until = std::chrono::steady_clock::now() + kStartLimit;
    if (!WaitReadable(control_.get(), until, {})) {
      kill(-pid_, SIGKILL);
      return absl::UnavailableError("start the compile server: no answer within 60 s");
    }
    const auto frame = rtc::ReadFrame(control_.get());
    if (!frame.has_value() || frame->kind != rtc::Frame::kHello ||
        !rtc::Unpack(frame->bytes, hello_)) {
      return absl::UnavailableError("start the compile server: it ended at once");
    }
    if (hello_.problem.empty()) return absl::OkStatus();
    return absl::UnavailableError(fmt::format("load the compiler library: {}", hello_.problem));
  }

  absl::StatusOr<rtc::Ending> Compile(const rtc::Request& request, std::stop_token stop) override {
    return Ask(rtc::Purpose::kCompile, request, stop);
  }

  absl::StatusOr<rtc::Ending> Prepare(const rtc::Request& request, std::stop_token stop) override {
    return Ask(rtc::Purpose::kPrepare, request, stop);
  }

 private:
  absl::StatusOr<rtc::Ending> Ask(rtc::Purpose purpose, const rtc::Request& request,
                                  const std::stop_token& stop) {
    FETTLE_ASSIGN_OR_RETURN(auto sockets, SocketPair());
    auto& [ours, theirs] = sockets;
    {
      const std::lock_guard lock(mutex_);
      if (!rtc::SendDescriptor(control_.get(), theirs.get(), purpose)) return Gone();
    }
    theirs.reset();
    if (!rtc::WriteFrame(ours.get(), rtc::Frame::kRequest, rtc::Pack(request))) return Gone();
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::seconds(request.wall_seconds) + kEndGrace;
    rtc::Ending ending;
    while (true) {
      if (!WaitReadable(ours.get(), until, stop)) {
        if (stop.stop_requested()) return absl::CancelledError("compile: stopped");
        return Gone();
      }
      const auto frame = rtc::ReadFrame(ours.get());
      if (!frame.has_value()) return Gone();
      if (frame->kind == rtc::Frame::kReply) {
        if (!rtc::Unpack(frame->bytes, ending.reply.emplace())) return Gone();
      } else if (frame->kind == rtc::Frame::kEnd) {
        const char* begin = frame->bytes.data();
        std::from_chars(begin, begin + frame->bytes.size(), ending.wait_status);
        return ending;
      }
    }
  }

  static absl::Status Gone() {
    return absl::UnavailableError("compile: the compile server ended; try again");
  }

  Fd control_;
  std::mutex mutex_;  // One descriptor at a time goes over the control socket.
  rtc::Hello hello_;
  std::thread keeper_;
  pid_t pid_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ForkServer>> ForkServer::Start(
    std::vector<std::string> argv, std::vector<std::string> environment) {
  FETTLE_ASSIGN_OR_RETURN(auto sockets, SocketPair());
  auto& [ours, theirs] = sockets;
  const std::string program = argv[0];
  // A thread of its own starts the server and lives as long: bubblewrap ends with the thread that
  // started it.
  std::promise<std::pair<int, pid_t>> started;
  auto outcome = started.get_future();
  std::thread keeper([&started, argv = std::move(argv), environment = std::move(environment),
                      control = theirs.get()]() mutable {
    pid_t pid = -1;
    const int error = Spawn(std::move(argv), std::move(environment), control, pid);
    started.set_value({error, pid});
    if (error != 0) return;
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  });
  const auto [error, pid] = outcome.get();
  theirs.reset();
  if (error != 0) {
    keeper.join();
    return absl::UnavailableError(fmt::format("start {}: {}", program, std::strerror(error)));
  }
  auto server = std::make_unique<ForkServerImpl>(std::move(ours), std::move(keeper), pid);
  FETTLE_RETURN_IF_ERROR(server->ReadHello());
  return server;
}

}  // namespace fettle
