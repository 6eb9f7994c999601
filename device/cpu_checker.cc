// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_checker.h"

#include <algorithm>
#include <cstring>

#include "device/cpu_faults.h"

namespace fettle {
namespace {

// A thread that makes this many accesses without a barrier, an end or another thread's turn is
// taken to spin; after that many turns without progress of any kind, to hang.
constexpr std::uint64_t kSliceAccesses = 100000;
constexpr std::uint64_t kMostSlices = 1000;
constexpr std::uint8_t kPoison = 0xFF;

thread_local CpuChecker* current_checker = nullptr;

}  // namespace

// The memory that an access falls into.
struct CpuChecker::Region {
  CpuShadow* shadow = nullptr;
  std::uintptr_t begin = 0;                          // Of the buffer or variable.
  std::vector<std::uint8_t>* initialised = nullptr;  // Per byte from `origin`; null: not tracked.
  std::uintptr_t origin = 0;
  bool shared = false;  // One block's; else global.
  const CpuBuffer* buffer = nullptr;
  const CpuVariable* variable = nullptr;
};

std::array<CpuCell, 4>& CpuShadow::Bytes(CpuCell& word) {
  if (word.bytes == 0) {
    const CpuCell copy = word;
    byte_cells_.push_back({copy, copy, copy, copy});
    word.bytes = static_cast<std::uint32_t>(byte_cells_.size());
  }
  return byte_cells_[word.bytes - 1];
}

CpuChecker::CpuChecker(CpuModule& module, CpuBlockRunner& runner, CpuFindings& findings,
                       CpuBuffer* dynamic, std::int64_t dynamic_bytes)
    : module_(module),
      runner_(runner),
      findings_(findings),
      dynamic_(dynamic),
      dynamic_bytes_(dynamic_bytes),
      first_block_(runner.block_serial() + 1),
      statics_(module.data_begin(), module.data_end()),
      static_initialised_(module.data_end() - module.data_begin(), 1),
      dynamic_initialised_(static_cast<std::size_t>(dynamic_bytes), 0) {
  dynamic_->SetPayload(0, dynamic_bytes);
  dynamic_->shadow() =
      std::make_unique<CpuShadow>(dynamic_->payload_begin(), dynamic_->payload_end());
  current_checker = this;
}

CpuChecker::~CpuChecker() { current_checker = nullptr; }

CpuChecker* CpuChecker::Current() { return current_checker; }

// Shared memory begins undefined in every block.
void CpuChecker::BeginBlock() {
  slices_without_progress_ = 0;
  for (const CpuVariable& variable : module_.variables()) {
    if (!variable.shared) continue;
    std::memset(reinterpret_cast<void*>(variable.begin), kPoison, variable.end - variable.begin);
    std::fill(static_initialised_.begin() +
                  static_cast<std::ptrdiff_t>(variable.begin - module_.data_begin()),
              static_initialised_.begin() +
                  static_cast<std::ptrdiff_t>(variable.end - module_.data_begin()),
              std::uint8_t{0});
  }
  if (dynamic_bytes_ > 0) {
    std::memset(dynamic_->bytes(), kPoison, static_cast<std::size_t>(dynamic_bytes_));
    std::fill(dynamic_initialised_.begin(), dynamic_initialised_.end(), std::uint8_t{0});
  }
}

std::string CpuChecker::At(std::uint32_t pc) const {
  const SourcePlace place = module_.PlaceOf(pc);
  return place.line == 0 ? std::string("an unknown place")
                         : fmt::format("{}:{}", place.file, place.line);
}

void CpuChecker::Add(const std::string& kind, bool is_error, std::string message, std::uint32_t pc,
                     const std::string& key) {
  const SourcePlace place = module_.PlaceOf(pc);
  findings_.Add({kind, is_error, std::move(message), place.file, place.line}, key);
}

std::string CpuChecker::NameOf(const Region& region, std::uintptr_t address) const {
  const std::uint64_t byte = address - region.begin;
  if (region.buffer == dynamic_) return fmt::format("dynamic shared memory byte {}", byte);
  if (region.buffer != nullptr) return fmt::format("{} byte {}", region.buffer->Name(), byte);
  return fmt::format("{} '{}' byte {}",
                     region.shared               ? "__shared__"
                     : region.variable->constant ? "__constant__"
                                                 : "__device__",
                     region.variable->name, byte);
}

std::string CpuChecker::BlockOf(std::uint32_t serial) const {
  if (serial == runner_.block_serial()) return CpuBlockRunner::Text(runner_.block_index());
  // Blocks of a check launch run in the order of the schedule; only forward keeps their numbers.
  if (runner_.launch().schedule != CpuSchedule::kForward) return "another";
  const unsigned* grid = runner_.launch().grid;
  const std::uint32_t n = serial - first_block_;
  return fmt::format("({},{},{})", n % grid[0], n / grid[0] % grid[1], n / grid[0] / grid[1]);
}

// ------------------------------------------------------------------------------------- bounds

void CpuChecker::Outside(const CpuBuffer* buffer, std::uintptr_t address, std::size_t size,
                         bool write, void* pc) {
  const auto offset =
      static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pc) - 1 - module_.base());
  const std::string what = buffer != nullptr
                               ? buffer->DescribeOutside(address)
                               : fmt::format("address {:#x}, which belongs to no buffer", address);
  Add(write ? "oob.write" : "oob.read", /*is_error=*/true,
      fmt::format("{} ({}-byte {}) by {} at {}", what, size, write ? "write" : "read",
                  runner_.Where(), At(offset)),
      offset, fmt::format("{}", offset));
  runner_.Abandon();
}

// False: the access needs no further check (constants of the module).
bool CpuChecker::FindRegion(std::uintptr_t address, std::size_t size, bool write, void* pc,
                            Region& region) {
  if (CpuBuffer* buffer = CpuBuffer::Owner(address); buffer != nullptr) {
    if (address < buffer->payload_begin() || address + size > buffer->payload_end()) {
      Outside(buffer, address, size, write, pc);
    }
    region.buffer = buffer;
    region.begin = region.origin = buffer->payload_begin();
    region.shared = buffer == dynamic_;
    if (buffer->shadow() == nullptr) {
      buffer->shadow() =
          std::make_unique<CpuShadow>(buffer->payload_begin(), buffer->payload_end());
    }
    region.shadow = buffer->shadow().get();
    std::vector<std::uint8_t>& known = region.shared ? dynamic_initialised_ : buffer->initialised();
    region.initialised = known.empty() ? nullptr : &known;
    return true;
  }
  if (address >= module_.data_begin() && address < module_.data_end()) {
    const std::vector<CpuVariable>& all = module_.variables();
    auto after = std::upper_bound(
        all.begin(), all.end(), address,
        [](std::uintptr_t wanted, const CpuVariable& v) { return wanted < v.begin; });
    if (after != all.begin() && address < std::prev(after)->end) {
      const CpuVariable& variable = *std::prev(after);
      if (address + size > variable.end) Outside(nullptr, address, size, write, pc);
      region.variable = &variable;
      region.begin = variable.begin;
      region.shared = variable.shared;
      region.shadow = &statics_;
      region.initialised = variable.shared ? &static_initialised_ : nullptr;
      region.origin = module_.data_begin();
      return true;
    }
  }
  bool in_guard = false;
  if (const int owner = runner_.stacks().Find(address, &in_guard); owner >= 0 && !in_guard) {
    const auto offset =
        static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pc) - 1 - module_.base());
    Add("local.foreign", /*is_error=*/true,
        fmt::format("access to local memory of thread {} by {} at {}",
                    CpuBlockRunner::Text(runner_.IndexOf(owner)), runner_.Where(), At(offset)),
        offset, fmt::format("{}", offset));
    return false;
  }
  // Constants and tables of the module, before its writable memory.
  if (!write && address >= module_.base() && address < module_.data_end()) return false;
  Outside(nullptr, address, size, write, pc);
  return false;
}

// ------------------------------------------------------------------------------------- access

void CpuChecker::SpendSlice() {
  accesses_in_slice_ = 0;
  ++slices_without_progress_;
  if (LaunchDeadline::Expired() || slices_without_progress_ > kMostSlices) {
    hung_ = true;
    const RuntimeGuard guard;
    findings_.Add({.kind = "hang",
                   .message = fmt::format("the threads of a block spin without progress, {}",
                                          runner_.Where()),
                   .file = module_.main_file()},
                  "");
    runner_.Abandon();
  }
  runner_.Yield();
}

void CpuChecker::CheckInitialised(const Region& region, std::uintptr_t address, std::size_t size,
                                  bool write, bool atomic, std::uint32_t pc) {
  std::uint8_t* known = region.initialised->data() + (address - region.origin);
  if (!write || atomic) {
    for (std::size_t i = 0; i < size; ++i) {
      if (known[i] != 0) continue;
      Add("uninit.read", /*is_error=*/true,
          fmt::format("read of {} before anything was written there, by {} at {}",
                      NameOf(region, address + i), runner_.Where(), At(pc)),
          pc, fmt::format("{}", pc));
      break;
    }
  }
  std::memset(known, 1, size);
}

void CpuChecker::Access(std::uintptr_t address, std::size_t size, bool write, bool atomic,
                        void* pc) {
  if (!runner_.in_fiber() || size == 0) return;
  if (runner_.stacks().Contains(runner_.thread(), address)) return;
  if (++accesses_in_slice_ > kSliceAccesses) SpendSlice();
  const RuntimeGuard guard;
  Region region;
  if (!FindRegion(address, size, write, pc, region)) return;
  const auto offset =
      static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pc) - 1 - module_.base());
  if (write && ((region.buffer != nullptr && region.buffer->read_only()) ||
                (region.variable != nullptr && region.variable->constant))) {
    Add("write.const", /*is_error=*/true,
        fmt::format("write to {} {} by {} at {}", region.buffer != nullptr ? "input" : "constant",
                    NameOf(region, address), runner_.Where(), At(offset)),
        offset, fmt::format("{}", offset));
  }
  if (region.initialised != nullptr) CheckInitialised(region, address, size, write, atomic, offset);

  const CpuAccess now{
      .phase = runner_.phase(),
      .block = runner_.block_serial(),
      .pc = offset,
      .thread = static_cast<std::uint16_t>(runner_.thread() | (atomic ? 0x8000 : 0)),
      .warp_phase = runner_.warp_phase(runner_.thread() & ~(runner_.lanes() - 1))};
  if (((address | size) & 3) == 0) {
    for (std::size_t i = 0; i < size; i += 4) {
      CpuCell& word = region.shadow->Word(address + i);
      if (word.bytes == 0) {
        CheckCell(word, now, write, region, address + i);
        continue;
      }
      std::array<CpuCell, 4>& bytes = region.shadow->Bytes(word);
      for (std::size_t b = 0; b < 4; ++b) CheckCell(bytes[b], now, write, region, address + i + b);
    }
    return;
  }
  for (std::size_t i = 0; i < size; ++i) {
    CpuCell& word = region.shadow->Word(address + i);
    CheckCell(region.shadow->Bytes(word)[(address + i) & 3], now, write, region, address + i);
  }
}

// -------------------------------------------------------------------------------------- races

bool CpuChecker::Ordered(const CpuAccess& before, const CpuAccess& now,
                         const Region& region) const {
  if (before.block != now.block) {
    // An earlier launch is over; blocks of one launch share only global memory.
    return region.shared || before.block < first_block_;
  }
  if (before.phase != now.phase || before.Thread() == now.Thread()) return true;
  const int lanes = runner_.lanes();
  return before.Thread() / lanes == now.Thread() / lanes && before.warp_phase != now.warp_phase;
}

// Keeps two readers, of different warps if there are such, as long as a later write could race with
// them.
void CpuChecker::NoteRead(CpuCell& cell, const CpuAccess& now, const Region& region) const {
  const auto superseded = [&](const CpuAccess& old) {
    return old.block == 0 ||
           (Ordered(old, now, region) &&
            (region.shared || old.block == now.block || old.block < first_block_));
  };
  if (superseded(cell.read)) {
    cell.read = now;
  } else if (superseded(cell.other_read)) {
    if (cell.read.Thread() != now.Thread() || cell.read.block != now.block) cell.other_read = now;
  } else if (cell.read.block == now.block && cell.other_read.block == now.block) {
    const int lanes = runner_.lanes();
    const bool same_warp = cell.read.Thread() / lanes == cell.other_read.Thread() / lanes;
    if (same_warp && now.Thread() / lanes != cell.read.Thread() / lanes) cell.other_read = now;
  }
}

void CpuChecker::CheckCell(CpuCell& cell, const CpuAccess& now, bool write, const Region& region,
                           std::uintptr_t address) {
  const auto races = [&](const CpuAccess& old) {
    return old.block != 0 && !(old.Atomic() && now.Atomic()) && !Ordered(old, now, region);
  };
  if (races(cell.write)) ReportRace(cell.write, /*before_write=*/true, now, write, region, address);
  if (!write) {
    NoteRead(cell, now, region);
    return;
  }
  if (races(cell.read)) ReportRace(cell.read, /*before_write=*/false, now, true, region, address);
  if (races(cell.other_read)) {
    ReportRace(cell.other_read, /*before_write=*/false, now, true, region, address);
  }
  cell.write = now;
}

void CpuChecker::ReportRace(const CpuAccess& before, bool before_write, const CpuAccess& now,
                            bool now_write, const Region& region, std::uintptr_t address) {
  const bool blocks = before.block != now.block;
  const bool warp = !blocks && before.Thread() / runner_.lanes() == now.Thread() / runner_.lanes();
  const auto describe = [&](const CpuAccess& access, bool wrote) {
    return fmt::format("{} by block {} thread {} at {}", wrote ? "write" : "read",
                       BlockOf(access.block),
                       CpuBlockRunner::Text(runner_.IndexOf(access.Thread())), At(access.pc));
  };
  const std::string message =
      fmt::format("{}: {}, after a {}, with no {} in between", NameOf(region, address),
                  describe(now, now_write), describe(before, before_write),
                  blocks ? "order between blocks"
                  : warp ? "__syncwarp (same warp)"
                         : "__syncthreads");
  Add(blocks ? "race.global"
      : warp ? "race.intra-warp"
             : "race.block",
      /*is_error=*/region.shared || !fenced_, message, now.pc,
      fmt::format("{}/{}/{}{}{}", At(before.pc), At(now.pc), blocks, before_write, now_write));
}

// ------------------------------------------------------------------------- undefined behaviour

void CpuChecker::Undefined(const std::string& kind, const std::string& message,
                           const std::string& file, int line, bool fatal) {
  findings_.Add({kind, true, fmt::format("{}, {} at {}:{}", message, runner_.Where(), file, line),
                 file, line},
                fmt::format("{}:{}", file, line));
  if (fatal && runner_.in_kernel()) runner_.Abandon();
}

}  // namespace fettle
