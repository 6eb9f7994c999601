// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/parse.h"

namespace fettle {
namespace {

std::vector<std::unique_ptr<Subcommand>> AllSubcommands() {
  std::vector<std::unique_ptr<Subcommand>> all;
  all.push_back(MakeServeCommand());
  all.push_back(MakeWorkerCommand());
  all.push_back(MakeDoctorCommand());
  all.push_back(MakeDemoCommand());
  all.push_back(MakeInitCommand());
  all.push_back(MakeCheckCommand());
  all.push_back(MakeCompileCommand());
  all.push_back(MakeTryCommand());
  all.push_back(MakeReproduceCommand());
  all.push_back(MakeProfileCommand());
  all.push_back(MakeDisasmCommand());
  all.push_back(MakeSubmitCommand());
  all.push_back(MakeBriefCommand());
  all.push_back(MakeProposeCommand());
  all.push_back(MakeTokenCommand());
  all.push_back(MakeRecordCommand());
  all.push_back(MakeMcpCommand());
  all.push_back(MakeWatchCommand());
  all.push_back(MakeCancelCommand());
  all.push_back(MakeResumeCommand());
  all.push_back(MakeJobsCommand());
  all.push_back(MakeWorkersCommand());
  all.push_back(MakeCandidatesCommand());
  all.push_back(MakeVariantsCommand());
  all.push_back(MakeShowCommand());
  all.push_back(MakeDiffCommand());
  all.push_back(MakeExplainCommand());
  all.push_back(MakeExportCommand());
  all.push_back(MakeVerifyCommand());
  all.push_back(MakeRecheckCommand());
  all.push_back(MakeImportCommand());
  all.push_back(MakeBackupCommand());
  all.push_back(MakeGcCommand());
  all.push_back(MakeCompletionCommand());
  all.push_back(MakeVersionCommand());
  return all;
}

// Turns the first SIGINT or SIGTERM into a stop request and the second into an immediate end. Both
// are blocked in every thread, so they arrive only here.
class SignalWatcher {
 public:
  SignalWatcher() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGUSR2);  // Ends the watcher itself.
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this] { Watch(); });
  }
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;
  ~SignalWatcher() {
    ending_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }
  std::stop_token token() const { return source_.get_token(); }

 private:
  void Watch() {
    int signal = 0;
    for (int seen = 0; sigwait(&signals_, &signal) == 0;) {
      if (ending_) return;
      if (signal == SIGUSR2) continue;
      source_.request_stop();
      // An impatient Ctrl-C ends it at once. A batch system sends SIGTERM to a shell and to its
      // children, which pass it on: that is one wish.
      if (signal == SIGINT && ++seen > 1) std::_Exit(128 + signal);
    }
  }

  sigset_t signals_{};
  std::atomic<bool> ending_{false};
  std::stop_source source_;
  std::thread thread_;
};

int Main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  // gRPC's own lines say less than the error that follows them.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  Terminal terminal = Terminal::Standard();
  const auto subcommands = AllSubcommands();
  const auto parsed =
      ParseCommandLine(subcommands, std::vector<std::string>(argv + 1, argv + argc));
  if (!parsed.ok()) {
    terminal.Note(fmt::format("fettle: {}", std::string(parsed.status().message())));
    return static_cast<int>(ExitCode::kUsage);
  }
  if (parsed->subcommand == nullptr) {
    terminal.Raw(parsed->text);
    return static_cast<int>(ExitCode::kOk);
  }
  std::optional<SignalWatcher> signals;
  if (!parsed->subcommand->handles_signals()) signals.emplace();
  Context context{terminal, signals ? signals->token() : std::stop_token(), argv[0], subcommands};
  const absl::StatusOr<ExitCode> code = parsed->subcommand->Run(context);
  terminal.Status("");
  if (const int error = Terminal::OutputError(); error != 0) {
    terminal.Note(fmt::format("fettle {}: write the output: {}", parsed->subcommand->name(),
                              std::strerror(error)));
    return static_cast<int>(ExitCode::kUnavailable);
  }
  if (code.ok()) return static_cast<int>(*code);
  terminal.Note(Printable(fmt::format("fettle {}: {}", parsed->subcommand->name(),
                                      std::string(code.status().message()))));
  return static_cast<int>(ExitCodeOf(code.status()));
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) { return fettle::Main(argc, argv); }
