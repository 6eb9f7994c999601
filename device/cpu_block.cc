// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_block.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <map>

#include "device/cpu_checker.h"

namespace fettle {
namespace {

thread_local CpuBlockRunner* current_runner = nullptr;

// The body of every fiber: one GPU thread after the other, for all blocks.
[[noreturn]] void RunFiber() {
  for (;;) {
    CpuBlockRunner* runner = CpuBlockRunner::Current();
    runner->launch().entry->thread(runner->launch().arguments);
    runner->FinishThread();
  }
}

std::string Hex(std::uint64_t mask) { return fmt::format("{:#x}", mask); }

std::uint64_t Combine(int reduction, std::uint64_t a, std::uint64_t b) {
  const auto signed_a = static_cast<std::int64_t>(a), signed_b = static_cast<std::int64_t>(b);
  switch (reduction) {
    case FETTLE_RED_ADD:
      return a + b;
    case FETTLE_RED_MIN:
      return signed_a < signed_b ? a : b;
    case FETTLE_RED_MAX:
      return signed_a < signed_b ? b : a;
    case FETTLE_RED_AND:
      return a & b;
    case FETTLE_RED_OR:
      return a | b;
    case FETTLE_RED_XOR:
      return a ^ b;
    case FETTLE_RED_UMIN:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

// Calls `visit(lane)` for each set bit.
template <class Visit>
void ForEachLane(std::uint64_t lanes, Visit visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(std::countr_zero(lanes));
}

}  // namespace

CpuBlockRunner* CpuBlockRunner::Current() { return current_runner; }

bool CpuBlockRunner::Begin(const CpuLaunch& launch, void* dynamic_shared) {
  current_runner = this;
  launch_ = &launch;
  dynamic_shared_ = dynamic_shared;
  lanes_ = static_cast<unsigned>(launch.lanes);
  random_ = launch.seed * 2654435761u + 1;
  abandoned_ = false;
  vote_ = -1;
  threads_ = static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]);
  int i = 0;
  for (unsigned z = 0; z < launch.block[2]; ++z) {
    for (unsigned y = 0; y < launch.block[1]; ++y) {
      for (unsigned x = 0; x < launch.block[0]; ++x)
        index_[static_cast<std::size_t>(i++)] = {x, y, z};
    }
  }
  if (launch.module->set_launch != nullptr) {
    launch.module->set_launch(launch.block, launch.grid, dynamic_shared);
  }
  return !launch.fibers || stacks_.Reserve(threads_, RunFiber);
}

void CpuBlockRunner::End() { current_runner = nullptr; }

bool CpuBlockRunner::RunBlock(std::uint64_t block_number) {
  const CpuLaunch& launch = *launch_;
  block_index_ = {static_cast<unsigned>(block_number % launch.grid[0]),
                  static_cast<unsigned>(block_number / launch.grid[0] % launch.grid[1]),
                  static_cast<unsigned>(block_number / launch.grid[0] / launch.grid[1])};
  if (launch.module->set_block != nullptr) {
    launch.module->set_block(block_index_.x, block_index_.y, block_index_.z);
  }
  ++phase_;
  ++block_serial_;
  if (launch.checker != nullptr) launch.checker->BeginBlock();
  if (sigsetjmp(escape_, 0) != 0) {
    in_kernel_ = in_fiber_ = false;
    stacks_.Release();
    return false;
  }
  RuntimeGuard::Clear();
  in_kernel_ = true;
  if (!launch.fibers) {
    launch.entry->loop(launch.arguments);
    in_kernel_ = false;
    return true;
  }
  for (std::size_t w = 0; w < ready_.size(); ++w) {
    const int left = threads_ - static_cast<int>(w) * 64;
    ready_[w] = left <= 0 ? 0 : left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
    barrier_wait_[w] = warp_wait_[w] = done_[w] = 0;
  }
  alive_ = threads_;
  at_barrier_ = 0;
  std::fill_n(passed_line_.begin(), threads_, 0);
  current_ = launch.schedule == CpuSchedule::kReverse ? threads_ - 1 : 0;
  in_fiber_ = true;
  fettle_switch_stack(&main_stack_, *stacks_.pointer(current_));
  in_kernel_ = in_fiber_ = false;
  if (abandoned_) stacks_.Release();
  return !abandoned_;
}

void CpuBlockRunner::Abandon() {
  abandoned_ = true;
  if (in_fiber_) {
    in_fiber_ = false;
    void* unused;
    fettle_switch_stack(&unused, main_stack_);
  }
  siglongjmp(escape_, 1);
}

void CpuBlockRunner::AbandonFromSignal() { siglongjmp(escape_, 1); }

std::string CpuBlockRunner::Text(fettle_uint3 v) {
  return fmt::format("({},{},{})", v.x, v.y, v.z);
}

std::string CpuBlockRunner::Where() const {
  if (!in_fiber_) return fmt::format("block {}", Text(block_index_));
  return fmt::format("block {} thread {}", Text(block_index_), Text(IndexOf(current_)));
}

// --------------------------------------------------------------------------------- scheduling

inline void CpuBlockRunner::SwitchTo(int next) {
  const int from = current_;
  current_ = next;
  ++switches_;
  if (next != from) fettle_switch_stack(stacks_.pointer(from), *stacks_.pointer(next));
}

inline void CpuBlockRunner::RunNext() {
  // Almost always: the next lane of the same warp is ready.
  const int from = current_;
  const std::uint64_t later = ready_[static_cast<std::size_t>(from) >> 6] >> (from & 63);
  if (later != 0 && launch_->schedule == CpuSchedule::kForward) {
    const int step = std::countr_zero(later);
    if (static_cast<unsigned>((from & static_cast<int>(lanes_ - 1)) + step) < lanes_) {
      SwitchTo(from + step);
      return;
    }
  }
  RunNextSlow();
}

int CpuBlockRunner::CountReady() const {
  int count = 0;
  for (const std::uint64_t word : ready_) count += std::popcount(word);
  return count;
}

int CpuBlockRunner::PickReadyNth(int n) const {
  for (std::size_t w = 0; w < ready_.size(); ++w) {
    std::uint64_t word = ready_[w];
    const int here = std::popcount(word);
    if (n >= here) {
      n -= here;
      continue;
    }
    while (n-- > 0) word &= word - 1;
    return static_cast<int>(w * 64) + std::countr_zero(word);
  }
  return -1;
}

int CpuBlockRunner::PickReady() const {
  // The rest of this warp first, from the next lane round; then the warps behind it, round.
  if (const std::uint64_t bits = WarpBits(ready_, current_); bits != 0) {
    const unsigned lane = static_cast<unsigned>(current_) & (lanes_ - 1);
    const std::uint64_t later = lane == 63 ? 0 : bits & ~((std::uint64_t{2} << lane) - 1);
    return WarpStart(current_) + std::countr_zero(later != 0 ? later : bits);
  }
  const std::size_t words = (static_cast<std::size_t>(threads_) + 63) / 64;
  const std::size_t here = static_cast<std::size_t>(current_) / 64;
  const std::uint64_t behind = ready_[here] & ~((std::uint64_t{1} << (current_ & 63)) - 1);
  if (behind != 0) return static_cast<int>(here * 64) + std::countr_zero(behind);
  for (std::size_t step = 1; step <= words; ++step) {
    const std::size_t w = (here + step) % words;
    if (ready_[w] != 0) return static_cast<int>(w * 64) + std::countr_zero(ready_[w]);
  }
  return -1;
}

void CpuBlockRunner::RunNextSlow() {
  for (;;) {
    if (WarpBits(ready_, current_) == 0 && WarpBits(warp_wait_, current_) != 0) {
      ResolveWarp(current_);
    }
    int next = -1;
    if (launch_->schedule == CpuSchedule::kForward) {
      next = PickReady();
    } else if (const int count = CountReady(); count > 0) {
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      next = PickReadyNth(launch_->schedule == CpuSchedule::kReverse
                              ? count - 1
                              : static_cast<int>((random_ >> 33) % static_cast<unsigned>(count)));
    }
    if (next >= 0) return SwitchTo(next);
    if (alive_ == 0) return FinishBlock();
    if (at_barrier_ == alive_) {
      ReleaseBarrier();
      continue;
    }
    int waiting = 0;
    while (waiting < threads_ && WarpBits(warp_wait_, waiting) == 0) {
      waiting += static_cast<int>(lanes_);
    }
    if (waiting < threads_) {
      ResolveWarp(waiting);
      continue;
    }
    launch_->findings->Add({.kind = "deadlock",
                            .message = "no thread of the block can go on: " + WhereAllWait(),
                            .line = line_[static_cast<std::size_t>(current_)]},
                           "");
    Abandon();
  }
}

void CpuBlockRunner::FinishBlock() {
  ++switches_;
  fettle_switch_stack(stacks_.pointer(current_), main_stack_);
}

void CpuBlockRunner::FinishThread() {
  Clear(ready_, current_);
  Set(done_, current_);
  --alive_;
  RunNext();
}

void CpuBlockRunner::Yield() {
  const int from = current_;
  Clear(ready_, from);  // So that another one is picked, if there is one.
  const int next = PickReady();
  Set(ready_, from);
  if (next >= 0) SwitchTo(next);
}

// ----------------------------------------------------------------------------------- barriers

void CpuBlockRunner::Barrier(int line, const char* what) {
  const auto i = static_cast<std::size_t>(current_);
  line_[i] = line;
  what_[i] = what;
  Clear(ready_, current_);
  Set(barrier_wait_, current_);
  ++at_barrier_;
  RunNext();
}

int CpuBlockRunner::BarrierVote(int predicate, int vote, int line) {
  predicate_[static_cast<std::size_t>(current_)] = predicate;
  vote_ = vote;
  Barrier(line, "__syncthreads with a vote");
  return vote_result_;
}

std::string CpuBlockRunner::WhereAllWait() const {
  std::map<std::string, std::pair<int, int>> groups;  // Text -> count, first thread.
  for (int i = 0; i < threads_; ++i) {
    const auto n = static_cast<std::size_t>(i);
    std::string where = "running";
    if (Bit(done_, i))
      where = "exited";
    else if (Bit(barrier_wait_, i))
      where = fmt::format("at {} line {}", what_[n], line_[n]);
    else if (Bit(warp_wait_, i))
      where = fmt::format("at a warp operation line {}", line_[n]);
    auto [entry, inserted] = groups.try_emplace(where, 0, i);
    ++entry->second.first;
  }
  std::string text;
  for (const auto& [where, group] : groups) {
    text += fmt::format("{}{} threads {} (first {})", text.empty() ? "" : "; ", group.first, where,
                        Text(IndexOf(group.second)));
  }
  return text;
}

void CpuBlockRunner::CheckBarrier() {
  int first = -1;
  bool mixed = false;
  for (int i = 0; i < threads_ && !mixed; ++i) {
    if (!Bit(barrier_wait_, i)) continue;
    if (first < 0) first = i;
    mixed = line_[static_cast<std::size_t>(i)] != line_[static_cast<std::size_t>(first)];
  }
  const int line = line_[static_cast<std::size_t>(std::max(first, 0))];
  const std::string block = Text(block_index_);
  if (mixed) {
    launch_->findings->Add(
        {.kind = "barrier.divergent",
         .message = fmt::format("threads of block {} meet at different barriers: {}", block,
                                WhereAllWait()),
         .line = line},
        fmt::format("{}", line));
  }
  // A thread that took this very barrier before has gone round it since.
  int left = 0;
  for (int i = 0; i < threads_ && line > 0; ++i) {
    left += Bit(done_, i) && passed_line_[static_cast<std::size_t>(i)] == line ? 1 : 0;
  }
  if (left > 0) {
    launch_->findings->Add(
        {.kind = "barrier.divergent",
         .message = fmt::format("{} threads of block {} took this barrier before and have ended "
                                "without it, while others take it again: {}",
                                left, block, WhereAllWait()),
         .line = line},
        fmt::format("left {}", line));
  }
  if (at_barrier_ < threads_) {
    launch_->findings->Add(
        {.kind = "barrier.exited",
         .is_error = false,
         .message =
             fmt::format("{} threads of block {} ended before a barrier that others reach: {}",
                         threads_ - at_barrier_, block, WhereAllWait()),
         .line = line},
        fmt::format("{}", line));
  }
}

void CpuBlockRunner::ReleaseBarrier() {
  const RuntimeGuard guard;
  if (launch_->checker != nullptr) CheckBarrier();
  if (vote_ >= 0) {
    int count = 0;
    for (int i = 0; i < threads_; ++i) {
      count += Bit(barrier_wait_, i) && predicate_[static_cast<std::size_t>(i)] != 0 ? 1 : 0;
    }
    vote_result_ = vote_ == FETTLE_VOTE_COUNT ? count
                   : vote_ == FETTLE_VOTE_AND ? static_cast<int>(count == at_barrier_)
                                              : static_cast<int>(count > 0);
    vote_ = -1;
  }
  for (int i = 0; i < threads_ && launch_->checker != nullptr; ++i) {
    const auto n = static_cast<std::size_t>(i);
    if (Bit(barrier_wait_, i)) passed_line_[n] = line_[n];
  }
  for (std::size_t w = 0; w < ready_.size(); ++w) {
    ready_[w] |= barrier_wait_[w];
    barrier_wait_[w] = 0;
  }
  at_barrier_ = 0;
  ++phase_;
  if (launch_->checker != nullptr) launch_->checker->NoteProgress();
}

// ----------------------------------------------------------------------------- warp operations

std::uint64_t CpuBlockRunner::WarpOperation(WarpOp op, std::uint64_t value, int source,
                                            int reduction, std::uint64_t mask, int line,
                                            std::uint64_t* active) {
  const auto i = static_cast<std::size_t>(current_);
  op_[i] = op;
  value_[i] = value;
  source_[i] = source;
  reduction_[i] = static_cast<std::uint8_t>(reduction);
  mask_[i] = mask;
  line_[i] = line;
  Clear(ready_, current_);
  Set(warp_wait_, current_);
  RunNext();
  if (active != nullptr) *active = active_[i];
  return result_[i];
}

std::uint64_t CpuBlockRunner::ConvergedGroup(int thread, int* leader) const {
  const int start = WarpStart(thread);
  const std::uint64_t waiting = WarpBits(warp_wait_, thread);
  int lowest = INT_MAX;
  ForEachLane(waiting, [&](int lane) {
    lowest = std::min(lowest, line_[static_cast<std::size_t>(start + lane)]);
  });
  std::uint64_t group = 0;
  *leader = -1;
  ForEachLane(waiting, [&](int lane) {
    const auto i = static_cast<std::size_t>(start + lane);
    if (line_[i] != lowest) return;
    if (*leader < 0) *leader = start + lane;
    const auto l = static_cast<std::size_t>(*leader);
    if (op_[i] == op_[l] && mask_[i] == mask_[l]) group |= std::uint64_t{1} << lane;
  });
  return group;
}

void CpuBlockRunner::CheckMask(int leader, std::uint64_t group) {
  const auto l = static_cast<std::size_t>(leader);
  const std::uint64_t named = mask_[l];
  const int line = line_[l];
  const std::uint64_t exist =
      WarpBits(ready_, leader) | WarpBits(barrier_wait_, leader) | WarpBits(warp_wait_, leader);
  const std::uint64_t missing =
      named & ~group & (lanes_ == 64 ? ~std::uint64_t{0} : std::uint64_t{0xffffffff});
  const auto report = [&](bool is_error, std::string text) {
    launch_->findings->Add({.kind = "warp.mask",
                            .is_error = is_error,
                            .message = fmt::format("{}, warp of block {} thread {}", text,
                                                   Text(block_index_), Text(IndexOf(leader))),
                            .line = line},
                           fmt::format("{}{}", line, is_error));
  };
  if ((named & group) != group) {
    report(true, fmt::format("lanes {} take part but the mask {} does not name them",
                             Hex(group & ~named), Hex(named)));
  }
  if ((missing & exist) != 0) {
    report(true, fmt::format("warp operation with mask {}, but only lanes {} reached it; lanes {} "
                             "are elsewhere",
                             Hex(named), Hex(group), Hex(missing & exist)));
  } else if (missing != 0) {
    const bool ended = (missing & WarpBits(done_, leader)) != 0;
    report(false, fmt::format("mask {} names lanes {} that {}", Hex(named), Hex(missing),
                              ended ? "have ended" : "do not exist in this partial warp"));
  }
}

void CpuBlockRunner::ExecuteShuffle(int start, std::uint64_t group) {
  ForEachLane(group, [&](int lane) {
    const auto i = static_cast<std::size_t>(start + lane);
    const int source = source_[i];
    if (source < 0 || source == lane) {
      result_[i] = value_[i];
    } else if (source < static_cast<int>(lanes_) && ((group >> source) & 1) != 0) {
      result_[i] = value_[static_cast<std::size_t>(start + source)];
    } else {
      result_[i] = launch_->checker == nullptr ? 0 : 0x7fc0bad07fc0bad0u;  // Two NaN floats.
      if (launch_->checker == nullptr) return;
      launch_->findings->Add(
          {.kind = "warp.inactive",
           .is_error = false,
           .message = fmt::format("a shuffle reads lane {}, which takes no part (active lanes {}), "
                                  "block {} thread {}",
                                  source, Hex(group), Text(block_index_), Text(index_[i])),
           .line = line_[i]},
          fmt::format("{}", line_[i]));
    }
  });
}

void CpuBlockRunner::Execute(int leader, std::uint64_t group) {
  const int start = WarpStart(leader);
  const auto at = [start](int lane) { return static_cast<std::size_t>(start + lane); };
  switch (op_[static_cast<std::size_t>(leader)]) {
    case WarpOp::kShuffle:
      ExecuteShuffle(start, group);
      break;
    case WarpOp::kBallot: {
      std::uint64_t votes = 0;
      ForEachLane(group, [&](int lane) {
        if (value_[at(lane)] != 0) votes |= std::uint64_t{1} << lane;
      });
      ForEachLane(group, [&](int lane) {
        result_[at(lane)] = votes;
        active_[at(lane)] = group;
      });
      break;
    }
    case WarpOp::kMatch:
      ForEachLane(group, [&](int lane) {
        std::uint64_t same = 0;
        ForEachLane(group, [&](int other) {
          if (value_[at(other)] == value_[at(lane)]) same |= std::uint64_t{1} << other;
        });
        result_[at(lane)] = same;
      });
      break;
    case WarpOp::kReduce: {
      std::uint64_t all = value_[static_cast<std::size_t>(leader)];
      ForEachLane(group & ~(std::uint64_t{1} << (leader - start)), [&](int lane) {
        all = Combine(reduction_[static_cast<std::size_t>(leader)], all, value_[at(lane)]);
      });
      ForEachLane(group, [&](int lane) { result_[at(lane)] = all; });
      break;
    }
    case WarpOp::kSync:
      for (unsigned part = 0; part < lanes_ / 32; ++part) {
        ++warp_phase_[static_cast<std::size_t>(start) / 32 + part];
      }
      break;
  }
}

// All lanes of the thread's warp wait or have ended: runs one group's operation.
void CpuBlockRunner::ResolveWarp(int thread) {
  const RuntimeGuard guard;
  int leader = -1;
  const std::uint64_t group = ConvergedGroup(thread, &leader);
  if (mask_[static_cast<std::size_t>(leader)] != 0) CheckMask(leader, group);
  Execute(leader, group);
  const auto w = static_cast<std::size_t>(leader) >> 6;
  const std::uint64_t bits = WarpShift(leader, group);
  warp_wait_[w] &= ~bits;
  ready_[w] |= bits;
}

}  // namespace fettle
