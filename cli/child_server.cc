// SPDX-License-Identifier: Apache-2.0
#include "cli/child_server.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/paths.h"
#include "cli/task_folder.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// The last lines of a log, on one line.
std::string EndOfLog(const std::string& path) {
  absl::StatusOr<std::string> log = ReadFile(path, 16 << 20);
  if (!log.ok()) return "";
  constexpr std::size_t kShown = 600;
  std::string end = log->size() > kShown ? log->substr(log->size() - kShown) : *log;
  for (char& c : end) {
    if (c == '\n') c = ' ';
  }
  return end;
}

bool HasSaid(const std::string& log, std::string_view words) {
  const absl::StatusOr<std::string> text = ReadFile(log, 16 << 20);
  return text.ok() && text->find(words) != std::string::npos;
}

absl::StatusOr<pid_t> Spawn(const std::string& data, const std::string& log) {
  std::string program = ProgramFolder() + "/fettle";
  std::string verb = "serve", flag = "--data-dir", folder = data;
  char* arguments[] = {program.data(), verb.data(), flag.data(), folder.data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  // A group of its own: Ctrl-C reaches this program, which then stops the server in order.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), &files, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return absl::UnavailableError(fmt::format("start {}: {}", program, std::strerror(error)));
  }
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildServer>> ChildServer::Start(const std::string& data,
                                                                std::stop_token stop) {
  FETTLE_RETURN_IF_ERROR(MakePrivateFolder(data));
  const std::string log = data + "/serve.log";
  std::unique_ptr<ChildServer> server(new ChildServer());
  server->log_ = log;
  FETTLE_ASSIGN_OR_RETURN(server->pid_, Spawn(data, log));
  ConnectionFlags connection;
  connection.data = data;
  FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection));
  const auto deadline = steady_clock::now() + seconds(20);
  while (!stop.stop_requested()) {
    // It answers a moment before it has said where its dashboard is.
    if (client->GetServerInfo().ok() && HasSaid(log, "ready on")) return server;
    int status = 0;
    if (::waitpid(server->pid_, &status, WNOHANG) == server->pid_) {
      server->pid_ = -1;
      // Another one may have taken the folder at the same moment: that one will do.
      for (int i = 0; i < 50 && !stop.stop_requested(); ++i) {
        if (client->GetServerInfo().ok()) return std::unique_ptr<ChildServer>();
        std::this_thread::sleep_for(milliseconds(100));
      }
      return absl::UnavailableError(
          fmt::format("start a server on {}: it ended at once: {}", data, EndOfLog(log)));
    }
    if (steady_clock::now() > deadline) {
      return absl::UnavailableError(
          fmt::format("start a server on {}: no answer within 20 s: {}", data, EndOfLog(log)));
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
  return absl::CancelledError("interrupted");
}

std::string ChildServer::dashboard_link() const {
  constexpr std::string_view kBefore = "dashboard at ";
  const std::string log = ReadFile(log_, 16 << 20).value_or("");
  const auto at = log.find(kBefore);
  if (at == std::string::npos) return "";
  const auto begin = at + kBefore.size();
  return log.substr(begin, log.find('\n', begin) - begin);
}

ChildServer::~ChildServer() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  const auto deadline = steady_clock::now() + seconds(10);
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (steady_clock::now() > deadline) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
      return;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
}

}  // namespace fettle
