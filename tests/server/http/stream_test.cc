// SPDX-License-Identifier: Apache-2.0
// Live events over HTTP.

#include "tests/server/http/http_fixture.h"

namespace fettle {
namespace {

std::vector<RawEvent> ReadAll(RawConnection& connection) {
  std::vector<RawEvent> events;
  while (std::optional<RawEvent> event = NextEvent(connection)) events.push_back(*event);
  return events;
}

TEST_F(HttpTest, StreamsAJobsEventsToItsEnd) {
  StartHttp();
  LogIn();
  const std::string id = Submit(Request("one")).id();
  RawConnection stream = OpenStream("/api/v1/jobs/" + id + "/stream");
  ASSERT_EQ(NextEvent(stream)->name, "state_changed");
  StartWorker(HonestAnswer);
  const std::vector<RawEvent> events = ReadAll(stream);
  ASSERT_GT(events.size(), 8U);
  EXPECT_EQ(events.back().name, "end");
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    EXPECT_EQ(events[i].id, std::to_string(i + 2));
    const auto data = nlohmann::json::parse(events[i].data);
    EXPECT_TRUE(data.contains(events[i].name)) << events[i].data;
    EXPECT_EQ(data["sequence"], i + 2);
  }
}

TEST_F(HttpTest, ResumesAfterTheLastEventThatWasSeen) {
  StartHttp();
  LogIn();
  const std::string id = FinishedJob();
  RawConnection whole = OpenStream("/api/v1/jobs/" + id + "/stream");
  const std::vector<RawEvent> all = ReadAll(whole);
  ASSERT_GT(all.size(), 6U);
  RawConnection by_header = OpenStream("/api/v1/jobs/" + id + "/stream?after=1", "5");
  EXPECT_EQ(NextEvent(by_header)->id, "6") << "the header is newer than the address";
  RawConnection by_query = OpenStream("/api/v1/jobs/" + id + "/stream?after=3");
  EXPECT_EQ(NextEvent(by_query)->id, "4");
  // At and after the terminal event: it ends at once.
  for (const std::string& last : {all[all.size() - 2].id, std::string("100000")}) {
    RawConnection ended = OpenStream("/api/v1/jobs/" + id + "/stream", last);
    const std::vector<RawEvent> rest = ReadAll(ended);
    ASSERT_EQ(rest.size(), 1U);
    EXPECT_EQ(rest[0].name, "end");
  }
  EXPECT_EQ(Get("/api/v1/jobs/" + id + "/stream?after=-1").status, 400);
  EXPECT_EQ(Get("/api/v1/jobs/" + id + "/stream?after=x").status, 400);
  EXPECT_EQ(Get("/api/v1/jobs/unknown/stream").status, 404);
}

TEST_F(HttpTest, StreamsEndWithTheServerAndGoOnWithTheNext) {
  StartHttp();
  LogIn();
  const std::string id = Submit(Request("one")).id();
  RawConnection stream = OpenStream("/api/v1/jobs/" + id + "/stream");
  ASSERT_EQ(NextEvent(stream)->id, "1");
  RawConnection feed = OpenStream("/api/v1/jobs/stream");
  ASSERT_TRUE(NextEvent(feed).has_value());
  server_.reset();
  EXPECT_FALSE(NextEvent(stream).has_value());
  EXPECT_FALSE(NextEvent(feed).has_value());
  StartHttp();
  StartWorker(HonestAnswer);
  RawConnection again = OpenStream("/api/v1/jobs/" + id + "/stream", "1");
  EXPECT_EQ(NextEvent(again)->id, "2");
  EXPECT_EQ(ReadAll(again).back().name, "end");
}

TEST_F(HttpTest, TheFeedTellsWhatChanged) {
  StartHttp();
  LogIn();
  RawConnection feed = OpenStream("/api/v1/jobs/stream");
  const auto first = nlohmann::json::parse(NextEvent(feed)->data);
  EXPECT_EQ(first["all"], true);
  EXPECT_TRUE(first["jobs"].empty());
  const std::string id = Submit(Request("one")).id();
  StartWorker(HonestAnswer);
  std::string state;
  while (state != "succeeded") {
    const std::optional<RawEvent> event = NextEvent(feed);
    ASSERT_TRUE(event.has_value());
    const auto data = nlohmann::json::parse(event->data);
    EXPECT_EQ(data["all"], false);
    for (const auto& job : data["jobs"]) {
      EXPECT_EQ(job["id"], id);
      state = job["state"];
    }
  }
}

TEST_F(HttpTest, ManyIdleStreamsCostNoThread) {
  StartHttp();
  LogIn();
  const std::string id = Submit(Request("one")).id();
  std::vector<RawConnection> streams;
  for (int i = 0; i < 200; ++i) {
    streams.push_back(OpenStream("/api/v1/jobs/" + id + "/stream"));
    ASSERT_EQ(NextEvent(streams.back())->id, "1");
  }
  EXPECT_EQ(Get("/api/v1/jobs").status, 200);
  StartWorker(HonestAnswer);
  for (RawConnection& stream : streams) EXPECT_EQ(ReadAll(stream).back().name, "end");
}

}  // namespace
}  // namespace fettle
