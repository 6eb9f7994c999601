// SPDX-License-Identifier: Apache-2.0
// fettle-compiled: a fork server for a run-time compiler. It loads and warms NVRTC or hiprtc once
// and forks one child per compile, so that a crash, an exit or a hang in the compiler costs one
// compile, and compiles run in parallel.
//
// usage: fettle-compiled nvrtc|hiprtc TMPDIR [LIBRARY-FILE...]
//
// Descriptor 3 is the control socket: the server answers with a Hello, then takes one descriptor
// per compile (rtc_wire.h). On it the child reads a Request and writes a Reply, and the server
// writes how the child ended. The server ends when the control socket closes.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/gpu/rtc_library.h"
#include "compiler/gpu/rtc_wire.h"

namespace fettle::rtc {
namespace {

constexpr int kControl = 3;
constexpr int kNice = 5;

struct Child {
  int fd = -1;            // To the client, kept to say how the child ended.
  std::string temporary;  // Its TMPDIR.
};

void Limit(decltype(RLIMIT_CPU) which, std::int64_t most) {
  if (most <= 0) return;
  const rlimit limit{static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
  setrlimit(which, &limit);
}

// Ends the process when the client hangs up: nobody wants the answer any more.
void WatchClient(int fd) {
  std::thread([fd] {
    pollfd wait{fd, POLLRDHUP, 0};
    while (poll(&wait, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }).detach();
}

// Has the library make, or take, the precompiled form of the request's prefix. What one process
// made serves its children alone: it holds addresses.
void Precompile(Request& request, const std::string& root) {
  if (request.prefix.empty()) return;
  request.source = request.prefix + "#pragma nv_hdrstop\n" + request.source;
  request.options.insert(request.options.end(),
                         {"--pch", "--pch-dir=" + root + "/pch", "--pch-messages=false",
                          "--diag-suppress=20283"});  // "PCH creation disabled because #line".
}

[[noreturn]] void RunChild(const Library& library, const std::string& root, int fd,
                           const std::string& temporary) {
  // Dies with the server; the server dies with its client.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  close(kControl);
  // What is timed meanwhile needs a core at once; a compile can wait.
  if (nice(kNice) == -1) errno = 0;
  setenv("TMPDIR", temporary.c_str(), 1);
  if (chdir(temporary.c_str()) != 0) _exit(90);
  const auto frame = ReadFrame(fd);
  Request request;
  if (!frame.has_value() || frame->kind != Frame::kRequest || !Unpack(frame->bytes, request)) {
    _exit(91);
  }
  const int null = open("/dev/null", O_RDWR);
  for (const int standard : {0, 1, 2}) dup2(null, standard);
  Limit(RLIMIT_CPU, request.cpu_seconds);
  Limit(RLIMIT_AS, request.address_space_bytes);
  Limit(RLIMIT_FSIZE, request.file_bytes);
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (request.wall_seconds > 0) alarm(static_cast<unsigned>(request.wall_seconds));
  WatchClient(fd);
  Precompile(request, root);
  const Reply reply = library.Compile(request);
  const bool sent = WriteFrame(fd, Frame::kReply, Pack(reply));
  _exit(sent ? 0 : 92);  // Not exit(): handlers of the libraries are not ours to run.
}

// In the server itself, so that children find it. The prefix names headers of the vendor alone.
void Prepare(const Library& library, const std::string& root, int fd) {
  const auto frame = ReadFrame(fd);
  Request request;
  if (frame.has_value() && frame->kind == Frame::kRequest && Unpack(frame->bytes, request)) {
    Precompile(request, root);
    WriteFrame(fd, Frame::kReply, Pack(library.Compile(request)));
    WriteFrame(fd, Frame::kEnd, "0");
  }
  close(fd);
}

void Start(const Library& library, const std::string& root, int fd,
           std::map<pid_t, Child>& children) {
  std::string temporary = root + "/job-XXXXXX";
  if (mkdtemp(temporary.data()) == nullptr) {
    close(fd);
    return;
  }
  const pid_t pid = fork();
  if (pid == 0) RunChild(library, root, fd, temporary);
  if (pid < 0) {
    close(fd);
    std::error_code ignored;
    std::filesystem::remove_all(temporary, ignored);
    return;
  }
  children[pid] = {fd, temporary};
}

void Reap(std::map<pid_t, Child>& children) {
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    const auto found = children.find(pid);
    if (found == children.end()) continue;
    WriteFrame(found->second.fd, Frame::kEnd, std::to_string(status));
    close(found->second.fd);
    std::error_code ignored;
    std::filesystem::remove_all(found->second.temporary, ignored);
    children.erase(found);
  }
}

// SIGCHLD, blocked. Before the compiler is loaded: it may start threads, and one that does not
// block the signal would swallow it.
sigset_t BlockChildSignals() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  return watched;
}

int Serve(const Library& library, const std::string& root) {
  const sigset_t watched = BlockChildSignals();
  const int signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  std::map<pid_t, Child> children;
  while (true) {
    pollfd wait[2] = {{kControl, POLLIN, 0}, {signals, POLLIN, 0}};
    if (poll(wait, 2, -1) < 0 && errno != EINTR) return 1;
    if ((wait[1].revents & POLLIN) != 0) {
      signalfd_siginfo info;
      while (read(signals, &info, sizeof info) > 0) {
      }
    }
    Reap(children);
    if ((wait[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
    Purpose purpose = Purpose::kCompile;
    const int fd = ReceiveDescriptor(kControl, purpose);
    if (fd < 0) break;
    if (purpose == Purpose::kPrepare) {
      Prepare(library, root, fd);
    } else {
      Start(library, root, fd, children);
    }
  }
  for (const auto& [pid, child] : children) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(child.temporary, ignored);
  }
  return 0;
}

int Main(int argc, char** argv) {
  const std::string kind = argc > 2 ? argv[1] : "";
  if (kind != "nvrtc" && kind != "hiprtc") {
    std::fprintf(stderr, "usage: fettle-compiled nvrtc|hiprtc TMPDIR [LIBRARY-FILE...]\n");
    return 2;
  }
  // comgr's own cache spoils the columns of diagnostics and replays old paths.
  setenv("AMD_COMGR_CACHE", "0", 1);
  setenv("TMPDIR", argv[2], 1);
  std::error_code ignored;
  std::filesystem::create_directory(std::string(argv[2]) + "/pch", ignored);
  BlockChildSignals();
  Hello hello;
  const auto library =
      Library::Load(kind == "nvrtc", Strings(argv + 3, argv + argc), hello.problem);
  if (library != nullptr) hello = library->Describe();
  if (!WriteFrame(kControl, Frame::kHello, Pack(hello)) || library == nullptr) return 1;
  return Serve(*library, argv[2]);
}

}  // namespace
}  // namespace fettle::rtc

int main(int argc, char** argv) { return fettle::rtc::Main(argc, argv); }
