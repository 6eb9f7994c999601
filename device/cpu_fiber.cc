// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_fiber.h"

#include <sys/mman.h>

#if !defined(__x86_64__)
#error "fettle_switch_stack is written for x86-64 only"
#endif

// System V ABI: rbx, rbp and r12 to r15 survive a call, so they are all that has to be kept.
asm(R"(
.text
.globl fettle_switch_stack
.type fettle_switch_stack,@function
fettle_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fettle_switch_stack, .-fettle_switch_stack
)");

namespace fettle {

FiberStacks::~FiberStacks() { Release(); }

void FiberStacks::Release() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
  map_ = nullptr;
  count_ = 0;
}

void FiberStacks::Prepare(int i, void (*entry)()) {
  const std::uintptr_t stagger = (static_cast<std::uintptr_t>(i) * 5 % 32) * 64;
  const std::uintptr_t top =
      low_ + static_cast<std::uintptr_t>(i) * kStride + kStack - stagger - 64;
  void** stack = reinterpret_cast<void**>(top & ~std::uintptr_t{15});
  *--stack = nullptr;  // Where a return address would be; keeps the stack aligned at entry.
  *--stack = reinterpret_cast<void*>(entry);
  for (int r = 0; r < 6; ++r) *--stack = nullptr;
  pointers_[static_cast<std::size_t>(i)] = stack;
}

bool FiberStacks::Reserve(int count, void (*entry)()) {
  if (count <= count_) return true;
  Release();
  map_bytes_ = kStride * static_cast<std::size_t>(count);
  void* map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return false;
  map_ = map;
  low_ = reinterpret_cast<std::uintptr_t>(map) + kGuard;
  for (int i = 0; i < count; ++i) {
    mprotect(static_cast<char*>(map) + static_cast<std::size_t>(i) * kStride, kGuard, PROT_NONE);
  }
  count_ = count;
  pointers_.assign(static_cast<std::size_t>(count), nullptr);
  Reset(entry);
  return true;
}

void FiberStacks::Reset(void (*entry)()) {
  for (int i = 0; i < count_; ++i) Prepare(i, entry);
}

int FiberStacks::Find(std::uintptr_t address, bool* in_guard) const {
  *in_guard = false;
  const std::uintptr_t begin = low_ - kGuard;
  if (map_ == nullptr || address < begin || address >= begin + map_bytes_) return -1;
  *in_guard = (address - begin) % kStride < kGuard;
  return static_cast<int>((address - begin) / kStride);
}

}  // namespace fettle
