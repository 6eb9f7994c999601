// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "tests/fakes/fake_http_server.h"
#include "tests/fakes/model_answers.h"
#include "tests/server/server_fixture.h"

namespace fettle {

// Jobs around a model, on real sockets: a local HTTP server plays the model, a scripted worker the
// GPU. The parameter names the provider whose protocol is spoken.
class LlmServerTest : public ServerTest, public ::testing::WithParamInterface<std::string> {
 protected:
  using Piece = FakeHttpServer::Piece;
  static constexpr char kKey[] = "sk-very-secret-0123456789";

  void SetUp() override {
    setenv("FETTLE_TEST_KEY", kKey, 1);
    answers_.anthropic = GetParam() == "anthropic";
  }
  ServerOptions RealOptions(double idle_seconds = 20, std::int64_t context_tokens = 200'000) {
    ServerOptions options = Options();
    options.proposers = nullptr;
    options.proposer_kinds = DefaultProposerKinds();
    options.models_file = folder_.str() + "/models.json";
    options.retry.max_attempts = 4;
    options.sleep = [this](std::chrono::milliseconds wait, std::stop_token) {
      waited_ms_ += wait.count();
      return true;
    };
    const nlohmann::json price = {
        {"input", 1}, {"output", 2}, {"cache_read", 1}, {"cache_write", 1}};
    const nlohmann::json model = {
        {"provider", GetParam()},       {"base_url", model_.url()},
        {"key_env", "FETTLE_TEST_KEY"}, {"context_tokens", context_tokens},
        {"max_output_tokens", 4'000},   {"idle_seconds", idle_seconds},
        {"usd_per_million", price}};
    std::ofstream(options.models_file) << nlohmann::json{
        {"format", 1},
        {"default", "m"},
        {"models",
         {{"m", model}, {"cheap", model}}}}.dump();
    return options;
  }
  static FakeAnswer Answer(const WorkUnit& unit) {
    if (unit.kind == UnitKind::kRegister) return {.result = PassedRegistration(unit)};
    const std::string& source = unit.candidate.kernel.source;
    if (source.find("scale(") == std::string::npos) {  // The plan calls another kernel.
      return {.result =
                  JudgedResult(unit, Verdict::kCompileError, Stage::kCompile, "compile_rejected")};
    }
    const auto speed = [](const KernelUnderTest& kernel) {
      const std::size_t at = kernel.kernel.source.find("\"speed ");
      return at == std::string::npos ? 1 : std::stod(kernel.kernel.source.substr(at + 7));
    };
    const double incumbent = unit.incumbent.has_value() ? speed(*unit.incumbent) : 1;
    return {.result = MeasuredResult(unit, speed(unit.candidate) / speed(unit.denominator),
                                     speed(unit.candidate) / incumbent)};
  }
  void Begin() {
    StartServer(RealOptions());
    StartWorker(Answer);
  }
  // Text that makes another kernel, which a comment would not.
  static std::string Tag(const std::string& marker) {
    return "static const char* tag = \"" + marker + "\";\n";
  }
  FakeHttpServer::Answer Proposal(const std::string& marker) const {
    return answers_.Call(
        "propose", {{"source", ScaleTask(1)["kernel.cu"] + Tag(marker)}, {"rationale", "because"}});
  }
  // Plans, and proposes ever faster kernels.
  FakeHttpServer::Responder Helpful() {
    return [this](const std::string& request) {
      if (ModelAnswers::AsksForPlan(request)) return answers_.Plan("vector-loads");
      return Proposal(fmt::format("speed {}", 1.1 + 0.1 * ++proposed_));
    };
  }
  std::string Start(const std::function<void(v1::SubmitJobRequest&)>& change = {}) {
    v1::SubmitJobRequest request = Request("");
    request.set_task_blob(PackTaskFiles(ScaleTask(1)));
    request.set_proposer("llm");
    request.mutable_budget()->set_candidates(3);
    if (change) change(request);
    return Submit(request).id();
  }
  v1::Job Ended(const std::string& id) {
    Watch(id);
    return GetJob(id);
  }
  std::vector<std::string> Notes(const std::string& id) {
    std::vector<std::string> notes;
    for (const v1::JobEvent& event : Watch(id)) {
      if (event.has_note()) notes.push_back(event.note().code() + ": " + event.note().text());
    }
    return notes;
  }

  // A call may still be under way when a test's body ends: what answers it lives here, and
  // responders own what they capture besides.
  ModelAnswers answers_;
  std::atomic<int> asked_ = 0;
  std::atomic<int> proposed_ = 0;
  std::atomic<std::int64_t> waited_ms_ = 0;
  FakeHttpServer model_;
};

}  // namespace fettle
