// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

namespace fettle {

// Who may use the cores: compiles, several at once, or a timing on the cpu device, alone. A timing
// that waits holds back compiles that have not begun, so it never starves; when timings follow each
// other, compiles wait for the first gap. Thread-safe.
class LaneGate {
 public:
  // At most `compile_jobs` compiles at once.
  explicit LaneGate(int compile_jobs) : compile_jobs_(compile_jobs) {}

  // Held while the work runs; empty when `stop` was requested first.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), timing_(other.timing_) {}
    Ticket& operator=(Ticket&& other) noexcept {
      if (this != &other) {
        Release();
        gate_ = std::exchange(other.gate_, nullptr);
        timing_ = other.timing_;
      }
      return *this;
    }
    ~Ticket() { Release(); }
    explicit operator bool() const { return gate_ != nullptr; }
    void Release() {
      if (gate_ != nullptr) std::exchange(gate_, nullptr)->Leave(timing_);
    }

   private:
    friend class LaneGate;
    Ticket(LaneGate* gate, bool timing) : gate_(gate), timing_(timing) {}
    LaneGate* gate_ = nullptr;
    bool timing_ = false;
  };

  Ticket EnterCompile(std::stop_token stop);
  Ticket EnterTiming(std::stop_token stop);

 private:
  void Leave(bool timing);

  const int compile_jobs_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  int compiling_ = 0;        // Guarded by mutex_.
  int timings_waiting_ = 0;  // Guarded by mutex_.
  bool timing_ = false;      // Guarded by mutex_.
};

}  // namespace fettle
