// SPDX-License-Identifier: Apache-2.0
#include "server/llm_journal.h"

#include <gtest/gtest.h>

#include "core/status_macros.h"
#include "store/agent_call_store.h"
#include "tests/fakes/store_rows.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

class OneAnswer final : public LlmClient {
 public:
  std::string_view provider() const override { return "fake"; }
  absl::StatusOr<LlmReply> Complete(const LlmRequest&, std::stop_token) override {
    ++asked;
    LlmReply reply;
    reply.text = "an answer that was paid for";
    return reply;
  }
  int asked = 0;
};

class LlmJournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StoreOptions options;
    options.data_dir = folder_.path() / "data";
    options.before_commit = [this](std::int64_t) {
      return full_ ? absl::ResourceExhaustedError("no space left") : absl::OkStatus();
    };
    auto store = Store::Open(std::move(options));
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    ASSERT_TRUE(InsertFakeJob(*store_, "j1").ok());
  }
  absl::StatusOr<LlmReply> Ask(LlmJournal& journal) {
    JournaledClient client(model_, journal, ModelSpec{}, "model/planner", [] {});
    LlmRequest request;
    request.messages.push_back({.text = "a question"});
    return client.Complete(request, {});
  }
  // As a process would see it that starts after this one was killed.
  std::string StateOnTheDisk() {
    auto other =
        Connection::Open(folder_.path() / "data" / "fettle.db", Connection::Mode::kReadOnly);
    EXPECT_TRUE(other.ok()) << other.status();
    const auto row = ReadAgentCall(*other, "j1", 1);
    EXPECT_TRUE(row.ok()) << row.status();
    return row.ok() ? row->state : "";
  }

  TemporaryFolder folder_;
  bool full_ = false;
  OneAnswer model_;
  std::unique_ptr<Store> store_;
};

TEST_F(LlmJournalTest, AnAnswerIsStoredBeforeAnybodyGetsIt) {
  LlmJournal journal(*store_, SystemClock(), "j1");
  const auto reply = Ask(journal);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(StateOnTheDisk(), call_state::kAnswered);

  LlmJournal next(*store_, SystemClock(), "j1");
  ASSERT_TRUE(next.Load().ok());
  const auto recalled = Ask(next);
  ASSERT_TRUE(recalled.ok()) << recalled.status();
  EXPECT_EQ(recalled->text, reply->text);
  EXPECT_EQ(model_.asked, 1) << "paid for twice";
}

// The disk fills up while the model answers: what was paid for is used, and stored once it can be.
TEST_F(LlmJournalTest, AnAnswerThatCannotBeStoredYetIsKept) {
  LlmJournal journal(*store_, SystemClock(), "j1");
  const JournalQuestion question("model/planner", {{"text", "a question"}});
  const auto row = journal.Begin(question, "model", {});
  ASSERT_TRUE(row.ok()) << row.status();
  full_ = true;
  EXPECT_TRUE(absl::IsResourceExhausted(journal.Answered(*row, {{"text", "yes"}}, {}, 0)));
  EXPECT_TRUE(absl::IsResourceExhausted(journal.Begin(question, "model", {}).status()))
      << "nothing more is paid for";
  EXPECT_EQ(StateOnTheDisk(), call_state::kSent);
  full_ = false;
  ASSERT_TRUE(journal.Flush().ok());
  EXPECT_EQ(StateOnTheDisk(), call_state::kAnswered);
}

}  // namespace
}  // namespace fettle
