// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fettle {

// Saves the callee-saved registers on the current stack, stores its pointer to *save and continues
// on the stack `to`. Floating-point control words are not switched: kernels do not change them.
extern "C" void fettle_switch_stack(void** save, void* to);

// Stacks for the threads of one block, each above a guard page. The tops are staggered over the
// sets of the first-level cache: equally aligned stacks would evict each other at every switch.
class FiberStacks {
 public:
  FiberStacks() = default;
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  // Makes `count` stacks that begin in `entry`, which must never return; existing ones are kept.
  // False: out of memory.
  bool Reserve(int count, void (*entry)());
  // Makes all stacks begin anew.
  void Reset(void (*entry)());
  void Release();

  int count() const { return count_; }
  void** pointer(int i) { return &pointers_[static_cast<std::size_t>(i)]; }
  bool Contains(int i, std::uintptr_t address) const {
    return address - low_ - static_cast<std::uintptr_t>(i) * kStride < kStride - kGuard;
  }
  // The stack that holds the address, or -1; `*in_guard` says that it is the page below it.
  int Find(std::uintptr_t address, bool* in_guard) const;

 private:
  static constexpr std::size_t kGuard = 4096;
#ifdef __SANITIZE_ADDRESS__
  static constexpr std::size_t kStack = 256 * 1024;
#else
  static constexpr std::size_t kStack = 64 * 1024;
#endif
  static constexpr std::size_t kStride = kStack + kGuard;

  void Prepare(int i, void (*entry)());

  void* map_ = nullptr;
  std::size_t map_bytes_ = 0;
  std::uintptr_t low_ = 0;  // First usable byte of stack 0.
  int count_ = 0;
  std::vector<void*> pointers_;
};

}  // namespace fettle
