// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device/cpu_block.h"
#include "device/cpu_memory.h"
#include "device/cpu_module.h"

namespace fettle {

// One access that a shadow cell remembers. `block` counts blocks over all launches; 0: none.
struct CpuAccess {
  std::uint32_t phase = 0, block = 0, pc = 0;
  std::uint16_t thread = 0;  // Bit 15: it was atomic.
  std::uint16_t warp_phase = 0;

  int Thread() const { return thread & 0x7fff; }
  bool Atomic() const { return (thread & 0x8000) != 0; }
};

// What is known of one 4-byte word, or of one byte once it was accessed in smaller pieces.
struct CpuCell {
  CpuAccess write, read, other_read;
  std::uint32_t bytes = 0;  // Index + 1 of the word's four byte cells; 0: not split.
};

// The shadow of a range of memory.
class CpuShadow {
 public:
  CpuShadow(std::uintptr_t begin, std::uintptr_t end)
      : base_(begin & ~std::uintptr_t{3}), cells_((end - base_ + 3) / 4 + 1) {}
  CpuCell& Word(std::uintptr_t address) { return cells_[(address - base_) >> 2]; }
  std::array<CpuCell, 4>& Bytes(CpuCell& word);

 private:
  std::uintptr_t base_;
  std::vector<CpuCell> cells_;
  std::vector<std::array<CpuCell, 4>> byte_cells_;
};

// The checking runtime of one launch: every access of the instrumented kernel passes through
// Access, which knows the bounds, what was written, and which accesses barriers order.
//
// Two accesses are ordered when the same thread made them, when they lie in different phases of one
// block, or when they come from one warp with a warp sync between; blocks are never ordered. Two
// atomic accesses do not race. Once a kernel uses __threadfence, races on global memory are only
// warnings: flags and locks may order them, which is not tracked.
class CpuChecker {
 public:
  // All must outlive the checker, which serves one launch.
  CpuChecker(CpuModule& module, CpuBlockRunner& runner, CpuFindings& findings, CpuBuffer* dynamic,
             std::int64_t dynamic_bytes);
  ~CpuChecker();

  // The checker of the calling thread's launch, or null.
  static CpuChecker* Current();

  void BeginBlock();
  void NoteProgress() { slices_without_progress_ = 0; }
  void NoteFence() { fenced_ = true; }
  void Access(std::uintptr_t address, std::size_t size, bool write, bool atomic, void* pc);
  // A finding of UBSan's hooks. `fatal`: the kernel cannot go on.
  void Undefined(const std::string& kind, const std::string& message, const std::string& file,
                 int line, bool fatal);
  // A wild access found by a signal handler rather than a hook.
  bool hung() const { return hung_; }

 private:
  struct Region;  // What an address belongs to.

  bool FindRegion(std::uintptr_t address, std::size_t size, bool write, void* pc, Region& region);
  void Outside(const CpuBuffer* buffer, std::uintptr_t address, std::size_t size, bool write,
               void* pc);
  void CheckCell(CpuCell& cell, const CpuAccess& now, bool write, const Region& region,
                 std::uintptr_t address);
  void CheckInitialised(const Region& region, std::uintptr_t address, std::size_t size, bool write,
                        bool atomic, std::uint32_t pc);
  bool Ordered(const CpuAccess& before, const CpuAccess& now, const Region& region) const;
  void NoteRead(CpuCell& cell, const CpuAccess& now, const Region& region) const;
  void ReportRace(const CpuAccess& before, bool before_write, const CpuAccess& now, bool now_write,
                  const Region& region, std::uintptr_t address);
  std::string NameOf(const Region& region, std::uintptr_t address) const;
  std::string BlockOf(std::uint32_t serial) const;
  std::string At(std::uint32_t pc) const;
  void Add(const std::string& kind, bool is_error, std::string message, std::uint32_t pc,
           const std::string& key);
  void SpendSlice();

  CpuModule& module_;
  CpuBlockRunner& runner_;
  CpuFindings& findings_;
  CpuBuffer* dynamic_;
  std::int64_t dynamic_bytes_;
  std::uint32_t first_block_;
  CpuShadow statics_;
  std::vector<std::uint8_t> static_initialised_, dynamic_initialised_;
  std::uint64_t accesses_in_slice_ = 0, slices_without_progress_ = 0;
  bool fenced_ = false, hung_ = false;
};

}  // namespace fettle
