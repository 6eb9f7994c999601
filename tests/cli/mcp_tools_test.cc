// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_tools.h"

#include <latch>

#include <gtest/gtest.h>

namespace fettle {
namespace {

using nlohmann::json;

// A service where a try lasts until somebody has heard of it.
class SlowService final : public ProposalsClient {
 public:
  explicit SlowService(std::latch& heard) : heard_(heard) {}
  std::string token_job() const override { return "j1"; }
  absl::StatusOr<std::string> CreateToken(const std::string&) override { return None(); }
  absl::StatusOr<std::string> GetRecording(const std::string&) override { return None(); }
  absl::StatusOr<v1::GetBriefResponse> GetBrief(const v1::GetBriefRequest&,
                                                std::stop_token) override {
    return None();
  }
  absl::StatusOr<v1::ProposeResponse> Propose(const v1::ProposeRequest&, std::stop_token) override {
    return None();
  }
  absl::StatusOr<v1::WaitProposalResponse> Wait(const v1::WaitProposalRequest&,
                                                std::stop_token) override {
    return None();
  }
  absl::StatusOr<v1::TryProposalResponse> Try(const v1::TryProposalRequest& request,
                                              std::stop_token) override {
    heard_.wait();
    v1::TryProposalResponse response;
    response.set_feedback_json(json{{"mode", request.mode()}}.dump());
    response.set_bar_json("{}");
    return response;
  }
  absl::StatusOr<v1::ClaimDirectionResponse> Claim(const v1::ClaimDirectionRequest&,
                                                   std::stop_token) override {
    return None();
  }
  absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(const v1::ListAttemptsRequest&,
                                                        std::stop_token) override {
    return None();
  }
  absl::StatusOr<v1::ShowAttemptResponse> ShowAttempt(const v1::ShowAttemptRequest&,
                                                      std::stop_token) override {
    return None();
  }

 private:
  static absl::Status None() { return absl::UnimplementedError("not here"); }
  std::latch& heard_;
};

TEST(McpTools, ATryThatTakesLongSaysThatItIsUnderWay) {
  std::latch heard(1);
  std::atomic<bool> open = true;
  SlowService service(heard);
  const auto tools = MakeProposalTools(service, "j1", std::chrono::milliseconds(1));
  const McpToolResult result = tools->Call("try_kernel", {{"mode", "measure"}},
                                           [&](const std::string& message) {
                                             EXPECT_EQ(message, "being tried");
                                             if (open.exchange(false)) heard.count_down();
                                           },
                                           {});
  EXPECT_FALSE(result.is_error) << result.document;
  EXPECT_EQ(result.document["feedback"]["mode"], "measure");
}

}  // namespace
}  // namespace fettle
