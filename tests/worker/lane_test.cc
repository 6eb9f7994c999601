// SPDX-License-Identifier: Apache-2.0
#include "worker/lane.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "device/null_device.h"

namespace fettle {
namespace {

using std::chrono::milliseconds;

LaneOptions Options() {
  LaneOptions options;
  options.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
  return options;
}

// A device that candidate code does not share a process with.
DeviceInfo Shared() {
  DeviceInfo device = MakeNullDevice()->info();
  device.id = "null";
  device.target.vendor = Vendor::kNvidia;
  return device;
}

// A hold that another thread asked for.
class Waiter {
 public:
  Waiter(Lane& lane, LaneUse use, Lane::Haste haste = Lane::Haste::kSearching)
      : hold_(std::async(std::launch::async, [&lane, use, haste, stop = stop_.get_token()] {
          return lane.Enter(use, stop, haste);
        })) {}
  ~Waiter() { Stop(); }
  bool Entered(milliseconds within) { return hold_.wait_for(within) == std::future_status::ready; }
  absl::StatusOr<Lane::Hold> Take() { return hold_.get(); }
  void Stop() { stop_.request_stop(); }

 private:
  std::stop_source stop_;
  std::future<absl::StatusOr<Lane::Hold>> hold_;
};

constexpr milliseconds kSoon{10'000}, kNever{100};

TEST(Lane, SmallAndLargeCasesShareTheDeviceAndATimingHasItAlone) {
  Lane lane(Shared(), Options());
  auto small = lane.Enter(LaneUse::kChecks, {});
  ASSERT_TRUE(small.ok());
  Waiter large(lane, LaneUse::kLarge), second(lane, LaneUse::kChecks);
  ASSERT_TRUE(large.Entered(kSoon));
  EXPECT_FALSE(second.Entered(kNever)) << "one at a time";
  { const auto ended = std::move(small); }
  ASSERT_TRUE(second.Entered(kSoon));
  Waiter timing(lane, LaneUse::kAlone), another_large(lane, LaneUse::kLarge);
  EXPECT_FALSE(timing.Entered(kNever));
  EXPECT_FALSE(another_large.Entered(milliseconds(0)));
  EXPECT_EQ(lane.load(), 4);
  { const auto a = second.Take(), b = large.Take(); }
  ASSERT_TRUE(timing.Entered(kSoon));
  EXPECT_FALSE(another_large.Entered(kNever)) << "beside a timing";
  Waiter late(lane, LaneUse::kChecks);
  EXPECT_FALSE(late.Entered(kNever)) << "beside a timing";
  { const auto ended = timing.Take(); }
  EXPECT_TRUE(late.Entered(kSoon));
  EXPECT_TRUE(another_large.Entered(kSoon));
}

TEST(Lane, ATimingThatWaitsHoldsBackChecksUnlessItWaitsForALargeOne) {
  Lane lane(Shared(), Options());
  auto large = lane.Enter(LaneUse::kLarge, {});
  ASSERT_TRUE(large.ok());
  Waiter timing(lane, LaneUse::kAlone);
  EXPECT_FALSE(timing.Entered(kNever));
  Waiter beside(lane, LaneUse::kChecks);
  ASSERT_TRUE(beside.Entered(kSoon)) << "the timing has to wait anyway";
  { const auto ended = std::move(large); }
  Waiter late(lane, LaneUse::kChecks);
  EXPECT_FALSE(late.Entered(kNever));
  EXPECT_FALSE(timing.Entered(milliseconds(0)));
  { const auto ended = beside.Take(); }
  ASSERT_TRUE(timing.Entered(kSoon));
  EXPECT_FALSE(late.Entered(kNever));
  { const auto ended = timing.Take(); }
  EXPECT_TRUE(late.Entered(kSoon));
}

TEST(Lane, ACancelledTimingLetsThoseInThatItHeldBack) {
  Lane lane(Shared(), Options());
  auto check = lane.Enter(LaneUse::kChecks, {});
  ASSERT_TRUE(check.ok());
  Waiter timing(lane, LaneUse::kAlone);
  EXPECT_FALSE(timing.Entered(kNever));
  Waiter late(lane, LaneUse::kLarge);
  EXPECT_FALSE(late.Entered(kNever));
  timing.Stop();
  EXPECT_TRUE(absl::IsCancelled(timing.Take().status()));
  EXPECT_TRUE(late.Entered(kSoon));
}

TEST(Lane, ThePatientLetThoseWhoSearchGoFirstForAWhile) {
  Lane lane(Shared(), Options());
  auto timing = lane.Enter(LaneUse::kAlone, {});
  ASSERT_TRUE(timing.ok());
  Waiter confirming(lane, LaneUse::kAlone, Lane::Haste::kPatient);
  EXPECT_FALSE(confirming.Entered(kNever));
  Waiter searching(lane, LaneUse::kAlone);
  EXPECT_FALSE(searching.Entered(kNever));
  EXPECT_EQ(lane.load(), 3);
  { const auto ended = std::move(timing); }
  ASSERT_TRUE(searching.Entered(kSoon));
  EXPECT_FALSE(confirming.Entered(kNever));
  // Others that search keep coming: in the end it has its turn all the same.
  std::jthread more([&lane](std::stop_token stop) {
    while (!stop.stop_requested()) {
      const auto hold = lane.Enter(LaneUse::kChecks, stop);
      std::this_thread::sleep_for(milliseconds(2));
    }
  });
  { const auto ended = searching.Take(); }
  EXPECT_TRUE(confirming.Entered(kSoon));
}

TEST(Lane, OnAProcessorEveryUnitIsAlone) {
  DeviceInfo cpu = Shared();
  cpu.target.vendor = Vendor::kCpu;
  DeviceInfo emulated = Shared();
  emulated.emulated = true;
  for (const DeviceInfo& device : {cpu, emulated}) {
    Lane lane(device, Options());
    auto first = lane.Enter(LaneUse::kChecks, {});
    ASSERT_TRUE(first.ok());
    Waiter second(lane, LaneUse::kChecks);
    EXPECT_FALSE(second.Entered(kNever));
    { const auto ended = std::move(first); }
    EXPECT_TRUE(second.Entered(kSoon));
  }
}

TEST(Lane, NeverMixesATimingWithAnythingElse) {
  Lane lane(Shared(), Options());
  std::atomic<int> checks = 0, large = 0, alone = 0, beside = 0;
  std::atomic<bool> mixed = false;
  const auto work = [&](int thread) {
    for (int i = 0; i < 150; ++i) {
      const LaneUse use = (i + thread) % 7 == 0   ? LaneUse::kAlone
                          : (i + thread) % 5 == 0 ? LaneUse::kLarge
                                                  : LaneUse::kChecks;
      std::atomic<int>& mine = use == LaneUse::kAlone   ? alone
                               : use == LaneUse::kLarge ? large
                                                        : checks;
      const auto hold = lane.Enter(use, {});
      ASSERT_TRUE(hold.ok());
      ++mine;
      if (checks > 1 || large > 1 || alone > 1 || (alone == 1 && checks + large > 0)) mixed = true;
      if (checks + large == 2) ++beside;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      --mine;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 12; ++i) threads.emplace_back(work, i);
  }
  EXPECT_FALSE(mixed);
  EXPECT_GT(beside, 0);
  EXPECT_EQ(lane.load(), 0);
}

TEST(Lane, RunnersServeOneUseAndNoneOutlivesAFault) {
  Lane lane(Shared(), Options());
  auto first = lane.Take(LaneUse::kChecks, /*fresh=*/false, {});
  ASSERT_TRUE(first.ok()) << first.status();
  const pid_t pid = (*first)->pid();
  lane.Return(LaneUse::kChecks, *std::move(first));
  auto timing = lane.Take(LaneUse::kAlone, /*fresh=*/false, {});
  ASSERT_TRUE(timing.ok());
  EXPECT_NE((*timing)->pid(), pid) << "that keeps the inputs of large cases";
  auto fresh = lane.Take(LaneUse::kChecks, /*fresh=*/true, {});
  ASSERT_TRUE(fresh.ok());
  EXPECT_NE((*fresh)->pid(), pid);
  auto again = lane.Take(LaneUse::kChecks, /*fresh=*/false, {});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->pid(), pid);

  lane.Return(LaneUse::kChecks, *std::move(again));
  lane.EndIdleRunners();
  again = lane.Take(LaneUse::kChecks, /*fresh=*/false, {});
  ASSERT_TRUE(again.ok());
  EXPECT_NE((*again)->pid(), pid) << "the memory that it held is free";

  lane.Suspect();
  EXPECT_EQ(lane.health(), "suspect");
  lane.Return(LaneUse::kChecks, *std::move(again));  // From before the fault.
  auto after = lane.Take(LaneUse::kChecks, /*fresh=*/false, {});
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE((*after)->pid(), pid);
  EXPECT_EQ(lane.health(), "ok") << "its health check was passed";
}

}  // namespace
}  // namespace fettle
