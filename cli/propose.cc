// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <iostream>
#include <iterator>
#include <random>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/feedback_text.h"
#include "cli/format.h"
#include "cli/kernel_file.h"
#include "cli/proposals_client.h"
#include "cli/task_folder.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"
#include "store/files.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::int64_t kWaitSliceMs = 10'000;

class ProposeCommand final : public Subcommand {
 public:
  std::string name() const override { return "propose"; }
  std::string summary() const override { return "hand a kernel in to a job of proposer external"; }
  std::string details() const override {
    return "FILE is a source (.cu, .hip; run under the parent's plan), a .json block with the "
           "fields\n"
           "that differ from the parent, or a .patch or .diff of the parent's source; '-' reads a\n"
           "source from standard input. Without FILE only --set differs.\n"
           "Exit code with --wait: 0 it is a WIN, 1 it is not; with --try: 0 nothing was wrong.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("JOB", &job_, "job id");
    auto& file = flags.Positional("FILE", &file_, "kernel source, block or patch");
    file.completes = Completes::kFile;
    file.required = false;
    flags.Flag("--parent", "P", &parent_,
               "candidate that it starts from: digest, incumbent or baseline (default baseline)");
    flags.Flag("--set", "NAME=VALUE", &set_, "value of a tunable; may be repeated");
    flags.Flag("--block", "FILE", &block_, "block (.json) for a source: plan, tunables, workspace")
        .completes = Completes::kFile;
    flags.Flag("--technique", "NAME", &technique_, "short name of what it tries");
    flags.Flag("--rationale", "TEXT", &rationale_, "why it should be faster");
    flags.Flag("--key", "KEY", &key_, "a repeat with the same key hands in nothing new");
    flags.Flag("--fit", "N", &fit_, "let the tuner try up to N values of its tunables");
    flags.Flag("--try", "MODE", &try_, "only try it: compile, check, bugs, measure or counters")
        .choices = {"compile", "check", "bugs", "measure", "counters"};
    flags.Flag("--case", "LABEL", &case_, "with --try: only this case, as timed/0");
    flags.Flag("--wait", "", &wait_, "wait for the verdict");
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    v1::KernelChange change;
    FETTLE_RETURN_IF_ERROR(ReadChange(change));
    FETTLE_ASSIGN_OR_RETURN(const auto client, ProposalsClient::Connect(connection_));
    if (!try_.empty()) return Try(context, *client, change);
    v1::ProposeRequest request;
    request.set_job_id(job_);
    request.set_key(key_.empty() ? DrawKey() : key_);
    *request.mutable_change() = change;
    request.set_technique(technique_);
    request.set_rationale(rationale_);
    request.set_fit(static_cast<std::int32_t>(fit_));
    FETTLE_ASSIGN_OR_RETURN(const v1::ProposeResponse proposed,
                            client->Propose(request, context.stop));
    if (!wait_) return Proposed(context, proposed);
    return Wait(context, *client, proposed);
  }

 private:
  static std::string DrawKey() {
    std::random_device random;
    return fmt::format("{:08x}{:08x}", random(), random());
  }

  absl::Status ReadChange(v1::KernelChange& change) {
    change.set_parent(parent_);
    json block = json::object();
    if (!block_.empty()) FETTLE_RETURN_IF_ERROR(ReadBlock(block_, block));
    std::string text;
    if (file_ == "-") {
      text.assign(std::istreambuf_iterator<char>(std::cin), {});
    } else if (!file_.empty()) {
      FETTLE_ASSIGN_OR_RETURN(text, ReadFile(file_, kMaxKernelBytes));
    }
    if (file_.ends_with(".json")) {
      FETTLE_RETURN_IF_ERROR(ReadBlock(file_, block));
    } else if (file_.ends_with(".patch") || file_.ends_with(".diff")) {
      change.set_patch(text);
    } else if (!file_.empty()) {
      block["source"] = text;
    }
    for (const std::string& one : set_) {
      FETTLE_RETURN_IF_ERROR(SetTunableValue(one, block["values"]));
    }
    if (!block.empty()) change.set_kernel_json(block.dump(-1, ' ', false, kReplaceInvalid));
    return absl::OkStatus();
  }

  static absl::Status ReadBlock(const std::string& path, json& block) {
    FETTLE_ASSIGN_OR_RETURN(const json given, ReadKernelBlock(path));
    block.update(given);
    return absl::OkStatus();
  }

  absl::StatusOr<ExitCode> Proposed(Context& context, const v1::ProposeResponse& proposed) const {
    if (json_) {
      context.terminal.Print(json{{"candidate", proposed.candidate()},
                                  {"state", proposed.state()},
                                  {"known", proposed.known()},
                                  {"bar", ParseDocument(proposed.bar_json())},
                                  {"next_action", proposed.next_action()}}
                                 .dump(2, ' ', false, kReplaceInvalid));
      return ExitCode::kOk;
    }
    context.terminal.Print(proposed.candidate());
    context.terminal.Note(Printable(
        fmt::format("{}{}", proposed.state(), proposed.known() ? " (known already)" : "")));
    return ExitCode::kOk;
  }

  absl::StatusOr<ExitCode> Wait(Context& context, ProposalsClient& client,
                                const v1::ProposeResponse& proposed) const {
    v1::WaitProposalRequest request;
    request.set_job_id(job_);
    request.set_candidate(proposed.candidate());
    request.set_wait_ms(kWaitSliceMs);
    v1::WaitProposalResponse response;
    do {
      FETTLE_ASSIGN_OR_RETURN(response, client.Wait(request, context.stop));
      context.terminal.Status(
          Printable(fmt::format("{} {}", ShortId(response.candidate()), response.state())));
    } while (response.feedback_json().empty() && response.state() != "not_evaluated");
    context.terminal.Status("");
    const json feedback = ParseDocument(response.feedback_json());
    const json bar = ParseDocument(response.bar_json());
    const bool won = TextOf(MemberOf(feedback, "verdict"), "verdict") == "WIN";
    if (json_) {
      context.terminal.Print(json{{"candidate", response.candidate()},
                                  {"state", response.state()},
                                  {"feedback", feedback},
                                  {"bar", bar},
                                  {"next_action", response.next_action()}}
                                 .dump(2, ' ', false, kReplaceInvalid));
    } else {
      context.terminal.Print(response.candidate());
      context.terminal.Raw(FeedbackText(feedback, context.terminal.width()));
      context.terminal.Raw(Folded(BarText(bar), context.terminal.width()));
      context.terminal.PrintFolded(Printable("next: " + response.next_action()));
    }
    return won ? ExitCode::kOk : ExitCode::kNo;
  }

  absl::StatusOr<ExitCode> Try(Context& context, ProposalsClient& client,
                               const v1::KernelChange& change) const {
    v1::TryProposalRequest request;
    request.set_job_id(job_);
    *request.mutable_change() = change;
    request.set_mode(try_);
    request.set_only_case(case_);
    FETTLE_ASSIGN_OR_RETURN(const v1::TryProposalResponse response,
                            client.Try(request, context.stop));
    const json feedback = ParseDocument(response.feedback_json());
    const bool passed = MemberOf(feedback, "passed") == json(true);
    if (json_) {
      context.terminal.Print(json{{"feedback", feedback},
                                  {"bar", ParseDocument(response.bar_json())},
                                  {"next_action", response.next_action()}}
                                 .dump(2, ' ', false, kReplaceInvalid));
    } else {
      context.terminal.Raw(FeedbackText(feedback, context.terminal.width()));
      if (passed) context.terminal.Print("nothing wrong was found");
      context.terminal.PrintFolded(Printable("next: " + response.next_action()));
    }
    return passed ? ExitCode::kOk : ExitCode::kNo;
  }

  std::string job_, file_, parent_, block_, technique_, rationale_, key_, try_, case_;
  std::vector<std::string> set_;
  std::int64_t fit_ = 0;
  bool wait_ = false;
  bool json_ = false;
  ConnectionFlags connection_;
};

class TokenCommand final : public Subcommand {
 public:
  std::string name() const override { return "token"; }
  std::string summary() const override { return "make a token that opens one job to a proposer"; }
  std::string details() const override {
    return "The token lets its holder read that job, try kernels and propose them; nothing else. "
           "It\n"
           "is shown once and kept as a hash.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("JOB", &job_, "job id");
    flags.Flag("--out", "FILE", &out_, "write it to a file of mode 0600 instead").completes =
        Completes::kFile;
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, ProposalsClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const std::string token, client->CreateToken(job_));
    if (out_.empty()) {
      context.terminal.Print(token);
      return ExitCode::kOk;
    }
    FETTLE_RETURN_IF_ERROR(WriteFileDurably(out_, token + "\n"));
    return ExitCode::kOk;
  }

 private:
  std::string job_, out_;
  ConnectionFlags connection_;
};

class RecordCommand final : public Subcommand {
 public:
  std::string name() const override { return "record"; }
  std::string summary() const override { return "write what a job's proposer did, for a replay"; }
  std::string details() const override {
    return "In the folder recordings of a server's data folder it can be replayed:\n"
           "fettle submit TASK --proposer replay --recording NAME";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("JOB", &job_, "job id");
    flags.Flag("--out", "FILE", &out_, "where to (default: standard output)").completes =
        Completes::kFile;
    flags.Flag("--json", "", &json_, "print JSON, as it does anyway");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, ProposalsClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const std::string text, client->GetRecording(job_));
    const std::string shown = ParseDocument(text).dump(1, ' ', false, kReplaceInvalid) + "\n";
    if (out_.empty()) {
      context.terminal.Raw(shown);
      return ExitCode::kOk;
    }
    FETTLE_RETURN_IF_ERROR(WriteFile(out_, shown));
    return ExitCode::kOk;
  }

 private:
  std::string job_, out_;
  bool json_ = false;
  ConnectionFlags connection_;
};

class BriefCommand final : public Subcommand {
 public:
  std::string name() const override { return "brief"; }
  std::string summary() const override { return "what a proposer of a job needs to know"; }
  void Declare(FlagSet& flags) override {
    flags.Positional("JOB", &job_, "job id");
    flags.Flag("--section", "S", &section_, "which part (default overview)").choices = {
        "overview", "source", "plan", "task", "reference", "hardware", "rules"};
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, ProposalsClient::Connect(connection_));
    v1::GetBriefRequest request;
    request.set_job_id(job_);
    request.set_section(section_);
    json whole;  // One document of all pages.
    do {
      FETTLE_ASSIGN_OR_RETURN(const auto response, client->GetBrief(request, context.stop));
      const json document = ParseDocument(response.document_json());
      if (json_ && whole.is_object()) {
        whole["text"] = TextOf(whole, "text") + TextOf(document, "text");
      } else if (json_) {
        whole = document;
      } else if (MemberOf(document, "text").is_string()) {
        context.terminal.Raw(Printable(TextOf(document, "text")));
      } else {
        context.terminal.Print(document.dump(2, ' ', false, kReplaceInvalid));
      }
      request.set_cursor(response.next_cursor());
    } while (!request.cursor().empty());
    if (json_) context.terminal.Print(whole.dump(2, ' ', false, kReplaceInvalid));
    return ExitCode::kOk;
  }

 private:
  std::string job_, section_;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeProposeCommand() { return std::make_unique<ProposeCommand>(); }
std::unique_ptr<Subcommand> MakeTokenCommand() { return std::make_unique<TokenCommand>(); }
std::unique_ptr<Subcommand> MakeRecordCommand() { return std::make_unique<RecordCommand>(); }
std::unique_ptr<Subcommand> MakeBriefCommand() { return std::make_unique<BriefCommand>(); }

}  // namespace fettle
