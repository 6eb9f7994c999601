// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <string>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/mcp_protocol.h"
#include "cli/mcp_tools.h"
#include "cli/proposals_client.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::size_t kMaxLineBytes = 8 << 20;
constexpr int kPollMs = 200;

void WriteAll(std::string text) {
  text += '\n';
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;  // The client has gone; its end of the stream comes next.
    done += static_cast<std::size_t>(wrote);
  }
}

// Whether anybody reads what is written.
bool Listening() {
  pollfd out{STDOUT_FILENO, 0, 0};
  return poll(&out, 1, 0) <= 0 || (out.revents & (POLLERR | POLLHUP)) == 0;
}

class McpCommand final : public Subcommand {
 public:
  std::string name() const override { return "mcp"; }
  std::string summary() const override {
    return "serve a job's tools to a coding agent (Model Context Protocol on stdio)";
  }
  std::string details() const override {
    return "The token of `fettle token JOB` is all that it needs; it names the job. See "
           "docs/mcp.md.";
  }
  void Declare(FlagSet& flags) override {
    flags.Flag("--job", "JOB", &job_, "job (default: the token's)");
    flags.Flag("--server", "ADDRESS", &connection_.endpoint,
               "server: unix:/path or host:port (as --endpoint)");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, ProposalsClient::Connect(connection_));
    const auto tools = MakeProposalTools(*client, job_.empty() ? client->token_job() : job_);
    McpOptions options;
    options.version = FettleVersion();
    McpSession session(*tools, options, WriteAll);
    std::string buffer;
    bool skipping = false;  // The rest of a line that was too long.
    char bytes[16 << 10];
    while (!context.stop.stop_requested()) {
      pollfd wait{STDIN_FILENO, POLLIN, 0};
      if (poll(&wait, 1, kPollMs) <= 0) continue;
      const ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      buffer.append(bytes, static_cast<std::size_t>(got));
      std::size_t begin = 0;
      for (std::size_t end = buffer.find('\n'); end != std::string::npos;
           end = buffer.find('\n', begin)) {
        if (!skipping) session.Handle(std::string_view(buffer).substr(begin, end - begin));
        skipping = false;
        begin = end + 1;
      }
      buffer.erase(0, begin);
      if (buffer.size() > kMaxLineBytes) {
        if (!skipping) session.Handle("{\"too long\"");  // Answered as no JSON.
        skipping = true;
        buffer.clear();
      }
    }
    if (!skipping && !buffer.empty()) session.Handle(buffer);  // A last line without its end.
    // The client may wait for what it asked before it closed its end.
    while (!context.stop.stop_requested() && Listening() &&
           !session.DrainFor(std::chrono::milliseconds(kPollMs))) {
    }
    return ExitCode::kOk;
  }

 private:
  std::string job_;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeMcpCommand() { return std::make_unique<McpCommand>(); }

}  // namespace fettle
