// SPDX-License-Identifier: Apache-2.0
#include "worker/channel.h"

#include <random>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/bound_json.h"
#include "device/null_device.h"
#include "worker/runner_protocol.h"
#include "worker/runner_server.h"

namespace fettle {
namespace {

using Code = absl::StatusCode;

std::chrono::steady_clock::time_point In(std::chrono::milliseconds span) {
  return std::chrono::steady_clock::now() + span;
}

class ChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here.Reset(ends[0]);
    there.Reset(ends[1]);
  }
  absl::StatusOr<ChannelMessage> Receive(std::chrono::milliseconds limit) {
    return ReceiveMessage(here.get(), /*accept_bulk=*/false, In(limit), {});
  }
  void Raw(const std::string& bytes) {
    ASSERT_EQ(send(there.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  UniqueFd here, there;
};

TEST_F(ChannelTest, CarriesAMessageAndItsMemoryFile) {
  const std::string_view pieces[] = {"abc", "def"};
  auto bulk = MakeBulk(pieces, 10);
  ASSERT_TRUE(bulk.ok()) << bulk.status();
  ASSERT_TRUE(
      SendMessage(here.get(), {{"op", "x"}}, bulk->get(), In(std::chrono::seconds(5))).ok());
  auto got = ReceiveMessage(there.get(), /*accept_bulk=*/true, In(std::chrono::seconds(5)), {});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->header["op"], "x");
  std::vector<std::uint8_t> bytes(6);
  ASSERT_TRUE(ReadBulk(got->bulk.get(), 0, bytes).ok());
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "abcdef");
  // The size is sealed: the runner can write into the room, not make more or less of it.
  EXPECT_TRUE(WriteBulk(got->bulk.get(), 6, std::vector<std::uint8_t>(4, 1)).ok());
  EXPECT_EQ(WriteBulk(got->bulk.get(), 6, std::vector<std::uint8_t>(5, 1)).code(),
            Code::kInvalidArgument);
  EXPECT_NE(ftruncate(got->bulk.get(), 0), 0);
  std::vector<std::uint8_t> beyond(3);
  EXPECT_EQ(ReadBulk(bulk->get(), 8, beyond).code(), Code::kInvalidArgument);
}

TEST_F(ChannelTest, CarriesALargeHeader) {
  const std::string text(4u << 20, 'x');
  std::thread sender([this, &text] {
    EXPECT_TRUE(SendMessage(there.get(), {{"t", text}}, -1, In(std::chrono::seconds(30))).ok());
  });
  const auto got = Receive(std::chrono::seconds(30));
  sender.join();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->header["t"].get_ref<const std::string&>().size(), text.size());
}

TEST_F(ChannelTest, DropsDescriptorsFromAnUntrustedSide) {
  const int before = open("/dev/null", O_RDONLY);
  close(before);
  ASSERT_TRUE(
      SendMessage(there.get(), nlohmann::json::object(), here.get(), In(std::chrono::seconds(5)))
          .ok());
  const auto got = Receive(std::chrono::seconds(5));
  ASSERT_TRUE(got.ok());
  EXPECT_FALSE(got->bulk.valid());
  const int after = open("/dev/null", O_RDONLY);
  EXPECT_EQ(before, after) << "a descriptor was left open";
  close(after);
}

TEST_F(ChannelTest, TellsDeathFromSilenceAndNonsense) {
  EXPECT_EQ(Receive(std::chrono::milliseconds(1)).status().code(), Code::kDeadlineExceeded);
  Raw("FTL1\x05");
  EXPECT_EQ(Receive(std::chrono::milliseconds(1)).status().code(), Code::kDeadlineExceeded);
  there.Reset(-1);
  EXPECT_EQ(Receive(std::chrono::seconds(5)).status().code(), Code::kAborted);
}

TEST_F(ChannelTest, RefusesALengthBeyondTheLimit) {
  Raw(std::string("FTL1\xff\xff\xff\xff", 8));
  EXPECT_EQ(Receive(std::chrono::seconds(5)).status().code(), Code::kInvalidArgument);
}

TEST_F(ChannelTest, RefusesWhatNestsWithoutEnd) {
  const std::string deep = "{\"a\":" + std::string(30'000, '[') + std::string(30'000, ']') + "}";
  const auto size = static_cast<std::uint32_t>(deep.size());
  std::string raw = "FTL1";
  for (int i = 0; i < 4; ++i) raw.push_back(static_cast<char>(size >> (8 * i) & 0xff));
  Raw(raw + deep);
  EXPECT_EQ(Receive(std::chrono::seconds(5)).status().code(), Code::kInvalidArgument);
}

TEST_F(ChannelTest, RefusesWhatIsNoObject) {
  Raw(std::string("FTL1\x02\0\0\0[]", 10));
  EXPECT_EQ(Receive(std::chrono::seconds(5)).status().code(), Code::kInvalidArgument);
  Raw(std::string("FTL1\x03\0\0\0{\"a", 11));
  EXPECT_EQ(Receive(std::chrono::seconds(5)).status().code(), Code::kInvalidArgument);
}

TEST_F(ChannelTest, StopsWaitingWhenTheCheckSaysSo) {
  int calls = 0;
  const auto got = ReceiveMessage(here.get(), false, In(std::chrono::hours(1)), [&calls] {
    return ++calls < 3 ? absl::OkStatus() : absl::CancelledError("stop");
  });
  EXPECT_EQ(got.status().code(), Code::kCancelled);
}

// Bytes that a runner under foreign control might send: the worker must come back with an error.
TEST_F(ChannelTest, SurvivesRandomBytes) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    SetUp();
    std::string bytes = "FTL1";
    const std::uint32_t length = random() % 64;
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>((length >> (8 * i)) & 0xff));
    bytes += R"({"error":{"code":10,"message":"x"}})";
    bytes.resize(8 + length, ' ');
    for (std::uint32_t flips = random() % 4; flips > 0; --flips) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << (random() % 8));
    }
    Raw(bytes);
    there.Reset(-1);
    const auto got = Receive(std::chrono::seconds(5));
    if (!got.ok()) {
      EXPECT_TRUE(absl::IsAborted(got.status()) || absl::IsInvalidArgument(got.status()))
          << got.status();
      continue;
    }
    ErrorFromAnswer(got->header).IgnoreError();
    RunObservationFromJson(got->header).status().IgnoreError();
    TimeObservationFromJson(got->header).status().IgnoreError();
    DeviceInfoFromJson(got->header).status().IgnoreError();
  }
}

// Well-formed frames whose fields were changed at random, into the server's loop: every one is
// answered, none ends it.
class NullSession final : public RunnerSession {
 public:
  const DeviceInfo& device() const override { return device_->info(); }
  absl::StatusOr<std::int64_t> LoadModule(std::string_view,
                                          const std::vector<std::string>&) override {
    return 1;
  }
  absl::Status UnloadModule(std::int64_t) override { return absl::OkStatus(); }
  absl::StatusOr<RunObservation> RunCase(const RunRequest&) override { return RunObservation{}; }
  absl::StatusOr<TimeObservation> TimeCase(const TimeRequest&) override {
    return TimeObservation{};
  }
  absl::StatusOr<std::vector<std::vector<std::uint8_t>>> FetchOutputs(
      const std::vector<std::vector<std::int64_t>>&) override {
    return absl::UnimplementedError("no outputs");
  }
  absl::Status CheckHealth() override { return absl::OkStatus(); }

 private:
  std::unique_ptr<Device> device_ = MakeNullDevice();
};

void Mutate(nlohmann::json& json, std::mt19937& random) {
  if ((json.is_object() || json.is_array()) && !json.empty() && random() % 4 != 0) {
    auto entry = json.begin();
    std::advance(entry, static_cast<std::ptrdiff_t>(random() % json.size()));
    return Mutate(*entry, random);
  }
  const nlohmann::json values[] = {nullptr,
                                   -1,
                                   1e300,
                                   "x",
                                   nlohmann::json::array(),
                                   nlohmann::json::object(),
                                   true,
                                   9223372036854775807};
  json = values[random() % std::size(values)];
}

TEST_F(ChannelTest, ServerAnswersEveryMutatedRequest) {
  NullSession session;
  RunnerHandlers handlers;
  handlers.session = &session;
  absl::Status served = absl::UnknownError("not ended");
  std::thread server([&] { served = ServeRunner(there.get(), handlers); });
  std::mt19937 random(5);
  const nlohmann::json requests[] = {
      {{"op", kOpRun},
       {"request", ToJson(RunRequest{}, SentCases().FormOf({}))},
       {"files", nlohmann::json::array()}},
      {{"op", kOpTime}, {"request", ToJson(TimeRequest{}, SentCases().FormOf({}))}},
      {{"op", kOpLoad}, {"size", 3}, {"symbols", {"k"}}},
      {{"op", kOpUnload}, {"module", 1}},
      {{"op", kOpHello}}};
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    nlohmann::json request = requests[random() % std::size(requests)];
    Mutate(request, random);
    if (!request.is_object()) continue;
    ASSERT_TRUE(SendMessage(here.get(), request, -1, In(std::chrono::seconds(5))).ok());
    const auto answer = Receive(std::chrono::seconds(5));
    ASSERT_TRUE(answer.ok()) << answer.status() << " after " << request.dump();
    refused += !ErrorFromAnswer(answer->header).ok();
  }
  EXPECT_GT(refused, 500);
  here.Reset(-1);
  server.join();
  EXPECT_TRUE(served.ok()) << served;
}

TEST(RunnerProtocol, RoundTripsRequestsAndObservations) {
  SentCases sent;
  ReceivedCases received;
  RunRequest run;
  run.input_seed = 0xFFFFFFFFFFFFFFFFULL;
  run.inputs = InputSet::kHeavyTail;
  run.placement = Placement::kPageEnd;
  run.kernel.symbols["k<float>"] = "_Z1kIfE";
  run.output_poison = 0x41;
  run.repeats = 5;
  const auto run_back = RunRequestFromJson(ToJson(run, sent.FormOf(run.bound_case)), received);
  ASSERT_TRUE(run_back.ok()) << run_back.status();
  EXPECT_EQ(ToJson(*run_back, {}), ToJson(run, {}));
  EXPECT_EQ(ToJson(run_back->bound_case), ToJson(run.bound_case));
  EXPECT_EQ(run_back->input_seed, run.input_seed);
  EXPECT_EQ(run_back->inputs, InputSet::kHeavyTail);

  TimeRequest time;
  time.order_seed = 17;
  time.screen_only = true;
  const auto time_back = TimeRequestFromJson(ToJson(time, sent.FormOf(time.bound_case)), received);
  ASSERT_TRUE(time_back.ok()) << time_back.status();
  EXPECT_EQ(ToJson(*time_back, {}), ToJson(time, {}));

  RunObservation seen;
  seen.modified_input = "x";
  seen.findings.push_back({"oob.write", true, "message", "kernel.cu", 4});
  seen.poison_bytes = {0, 12};
  const auto seen_back = RunObservationFromJson(ToJson(seen));
  ASSERT_TRUE(seen_back.ok()) << seen_back.status();
  EXPECT_EQ(ToJson(*seen_back), ToJson(seen));

  TimeObservation timed;
  timed.measurement.case_label = "timed/0";
  timed.measurement.blocks.push_back({{1.5, 2}, {1, 2}});
  timed.guard_violation = "y: 4 bytes";
  const auto timed_back = TimeObservationFromJson(ToJson(timed));
  ASSERT_TRUE(timed_back.ok()) << timed_back.status();
  EXPECT_EQ(ToJson(*timed_back), ToJson(timed));
}

TEST(RunnerProtocol, SendsACaseOnceAndNamesItAfterwards) {
  SentCases sent;
  ReceivedCases received;
  const auto one = [](std::int64_t size, std::int64_t last) {
    BoundCase bound;
    bound.label = "timed/0";
    BoundDim lens{"lens", true, std::vector<std::int64_t>(1000, size)};
    lens.values.back() = last;
    bound.dims.push_back(lens);
    return bound;
  };
  const auto crosses = [&](const BoundCase& bound) {
    const nlohmann::json form = sent.FormOf(bound);
    const auto taken = received.Take(form);
    EXPECT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(ToJson(taken.value_or(BoundCase())), ToJson(bound));
    return form.contains("case");
  };
  EXPECT_TRUE(crosses(one(3, 3)));
  EXPECT_FALSE(crosses(one(3, 3)));
  EXPECT_TRUE(crosses(one(3, 4)));  // Another list under the same label.
  EXPECT_FALSE(crosses(one(3, 3)));
  // More than either side keeps, in turns, and what was forgotten after a failure.
  for (std::int64_t i = 0; i < 3 * static_cast<std::int64_t>(SentCases::kMost); ++i) {
    crosses(one(i, 1));
    crosses(one(i / 2, 1));
  }
  sent.FormOf(one(-1, -1));
  sent.Forget();
  EXPECT_TRUE(crosses(one(-1, -1)));
  EXPECT_FALSE(received.Take({{"name", "unknown"}}).ok());
}

TEST(RunnerProtocol, RefusesALimitThatWouldWaitForEver) {
  SentCases sent;
  ReceivedCases received;
  RunRequest run;
  run.launch_limit = std::chrono::hours(1);
  EXPECT_EQ(RunRequestFromJson(ToJson(run, sent.FormOf(run.bound_case)), received).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace fettle
