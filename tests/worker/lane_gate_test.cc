// SPDX-License-Identifier: Apache-2.0
#include "worker/lane_gate.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace fettle {
namespace {

TEST(LaneGate, LetsCompilesShareAndATimingBeAlone) {
  LaneGate gate(2);
  std::atomic<int> compiling{0}, timing{0}, most_compiling{0};
  std::atomic<bool> broken{false};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        if (t % 2 == 0) {
          const LaneGate::Ticket ticket = gate.EnterCompile({});
          const int now = ++compiling;
          if (now > 2 || timing > 0) broken = true;
          int seen = most_compiling;
          while (seen < now && !most_compiling.compare_exchange_weak(seen, now)) {
          }
          std::this_thread::yield();
          --compiling;
        } else {
          const LaneGate::Ticket ticket = gate.EnterTiming({});
          if (++timing > 1 || compiling > 0) broken = true;
          std::this_thread::yield();
          --timing;
        }
      }
    });
  }
  threads.clear();
  EXPECT_FALSE(broken);
  EXPECT_GE(most_compiling, 1);
}

TEST(LaneGate, HoldsBackNewCompilesForAWaitingTiming) {
  LaneGate gate(2);
  LaneGate::Ticket compile = gate.EnterCompile({});
  std::atomic<bool> timed{false}, compiled{false};
  std::stop_source give_up;
  std::jthread timing([&] {
    const LaneGate::Ticket ticket = gate.EnterTiming({});
    EXPECT_FALSE(compiled);
    timed = true;
  });
  // Until the timing waits a second compile may still begin; from then on it must not.
  while (true) {
    std::stop_source at_once;
    at_once.request_stop();
    if (!gate.EnterCompile(at_once.get_token())) break;
    std::this_thread::yield();
  }
  std::jthread second([&] {
    const LaneGate::Ticket ticket = gate.EnterCompile({});
    EXPECT_TRUE(timed);
    compiled = true;
  });
  compile.Release();
  timing.join();
  second.join();
  EXPECT_TRUE(compiled);
}

TEST(LaneGate, GivesUpWhenStoppedAndWakesTheOthers) {
  LaneGate gate(2);
  LaneGate::Ticket compile = gate.EnterCompile({});
  std::stop_source stop;
  std::jthread timing([&] { EXPECT_FALSE(gate.EnterTiming(stop.get_token())); });
  stop.request_stop();
  timing.join();
  EXPECT_TRUE(gate.EnterCompile({}));  // Not held back by the one that gave up.
  EXPECT_FALSE(gate.EnterTiming(stop.get_token()));
}

}  // namespace
}  // namespace fettle
