// SPDX-License-Identifier: Apache-2.0

// A runner whose kernel misbehaves as the request's `schedule` says, under the real limits and
// filters. For runner_client_test.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "device/null_device.h"
#include "worker/channel.h"
#include "worker/lockdown.h"
#include "worker/runner_protocol.h"
#include "worker/runner_server.h"
#include "worker/watchdog.h"

namespace fettle {
namespace {

int g_channel = -1;

void HogMemory() {
  for (std::size_t size = std::size_t{1} << 26;;) {
    void* block = std::malloc(size);
    if (block == nullptr) std::abort();
    std::memset(block, 1, size);
  }
}

void HogMemoryFiles() {
  while (true) {
    const int fd = memfd_create("hog", 0);
    std::string block(std::size_t{1} << 24, 'x');
    for (int i = 0; i < 8; ++i) {
      if (write(fd, block.data(), block.size()) < 0) std::abort();
    }
  }
}

void BombThreads() {
  while (true) std::thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).detach();
}

// Whether one byte of a file can be read.
std::string TryToRead(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "hidden";
  char byte = 0;
  const bool got = read(fd, &byte, 1) == 1;
  close(fd);
  return got ? "readable" : "empty";
}

// Processes that /proc shows.
int CountProcesses() {
  int count = 0;
  for (int pid = 1; pid < 100'000; ++pid) {
    count += access(("/proc/" + std::to_string(pid)).c_str(), F_OK) == 0;
  }
  return count;
}

// What a kernel might try, by name; returns what it would tell through the observation.
std::string Misbehave(const std::string& how) {
  if (how == "segv") raise(SIGSEGV);
  if (how == "spin") {
    volatile int forever = 1;
    while (forever != 0) {
    }
  }
  if (how == "fork") return fork() == 0 ? "child" : "parent";
  if (how == "exec") execl("/bin/true", "true", nullptr);
  if (how == "socket") socket(AF_INET, SOCK_STREAM, 0);
  if (how == "hog") HogMemory();
  if (how == "hog_files") HogMemoryFiles();
  if (how == "threads") BombThreads();
  if (how == "exit") _exit(0);
  if (how == "close") {
    close(g_channel);
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (how == "garbage") {
    const char text[] = "this is no message of the protocol";
    if (write(g_channel, text, sizeof text) < 0) std::abort();
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (how == "write_file") {
    return open("/tmp/fettle-left-behind", O_CREAT | O_WRONLY, 0600) < 0 ? "refused" : "written";
  }
  if (how == "read_home") return access("/root", R_OK) == 0 ? "readable" : "hidden";
  if (how.starts_with("read:")) return TryToRead(how.substr(5));
  if (how == "processes") return std::to_string(CountProcesses());
  if (how == "environment") return environ[0] == nullptr ? "empty" : environ[0];
  if (how.starts_with("variable:")) {
    const char* value = std::getenv(how.c_str() + 9);
    return value == nullptr ? "unset" : value;
  }
  if (how == "kill_parent") kill(getppid(), SIGKILL);
  return "fine";
}

class EvilSession final : public RunnerSession {
 public:
  explicit EvilSession(Watchdog& watchdog) : device_(MakeNullDevice()), watchdog_(watchdog) {}
  const DeviceInfo& device() const override { return device_->info(); }
  absl::StatusOr<std::int64_t> LoadModule(std::string_view code,
                                          const std::vector<std::string>&) override {
    return static_cast<std::int64_t>(code.size());
  }
  absl::Status UnloadModule(std::int64_t) override {
    return absl::InvalidArgumentError("no such module");
  }
  absl::StatusOr<RunObservation> RunCase(const RunRequest& request) override {
    watchdog_.Arm(request.launch_limit, "a launch");
    RunObservation observation;
    observation.guard_violation = Misbehave(request.schedule);
    watchdog_.Disarm();
    for (const auto& [path, bytes] : request.files) {
      observation.outputs.emplace_back(bytes.begin(), bytes.end());
    }
    return observation;
  }
  absl::StatusOr<TimeObservation> TimeCase(const TimeRequest&) override {
    return absl::AbortedError("CUDA_ERROR_ILLEGAL_ADDRESS (700): planted");
  }
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> FetchOutputs(
      const std::vector<std::vector<std::int64_t>>&) override {
    return absl::UnimplementedError("no outputs");
  }
  absl::Status CheckHealth() override { return absl::OkStatus(); }

 private:
  std::unique_ptr<Device> device_;
  Watchdog& watchdog_;
};

int Run(int channel, std::int64_t memory, bool unshare) {
  g_channel = channel;
  if (unshare) EnterNamespaces().IgnoreError();
  LockdownOptions options;
  options.memory_bytes = memory;
  if (!ApplyLimits(options).ok()) return 3;
  Watchdog watchdog([channel](const std::string& what) {
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    SendMessage(channel, {{"error", ErrorJson(absl::DeadlineExceededError(what))}}, -1, soon)
        .IgnoreError();
    _exit(5);
  });
  EvilSession session(watchdog);
  if (!ApplyFinalFilter(options).ok()) return 3;
  RunnerHandlers handlers;
  handlers.session = &session;
  return ServeRunner(channel, handlers).ok() ? 0 : 5;
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  int channel = -1;
  std::int64_t memory = 0;
  bool unshare = false;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--channel") channel = std::atoi(argv[++i]);
    if (flag == "--memory") memory = std::atoll(argv[++i]);
    if (flag == "--unshare") unshare = true;
  }
  return fettle::Run(channel, memory, unshare);
}
