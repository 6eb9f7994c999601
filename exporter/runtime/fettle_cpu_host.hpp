// SPDX-License-Identifier: Apache-2.0
//
// Runs kernels that fettle compiled for the cpu target (x86-64, GNU C++17). Each GPU thread of a
// block is a fiber, switched at barriers and warp operations; a warp's waiting lanes that stand at
// the lowest source line execute their operation together. Kernels without either run as loops.
//
// Kernels call the fettle_rt_ functions of the program that loads them, so an executable must export
// these symbols: -rdynamic, or -Wl,--export-dynamic-symbol='fettle_rt_*' (the CMake package does it).
#ifndef FETTLE_CPU_HOST_1_HPP
#define FETTLE_CPU_HOST_1_HPP

#if !defined(__x86_64__) || !defined(__linux__)
#error "bundles for the cpu target run on x86-64 Linux only"
#endif

#include <condition_variable>
#include <csetjmp>
#include <thread>

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fettle/cpu_abi.h>
#include <fettle/runtime.hpp>

namespace fettle {
inline namespace runtime_1 {
namespace cpu_host_detail {

// Saves the callee-saved registers on the current stack, its pointer in *save, and goes on at `to`.
// System V ABI: rbx, rbp and r12 to r15 survive a call.
inline __attribute__((naked, noinline, no_sanitize("thread"), no_sanitize("address"))) void switch_stack(void** /*save*/, void* /*to*/) {
  asm volatile(
      "pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
      "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
      "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret\n\t");
}

struct Module {
  void* handle = nullptr;
  int file = -1;
  const fettle_cpu_module* facts = nullptr;
};

// One launch, shared by the threads that run its blocks.
struct Job {
  const fettle_cpu_entry* entry;
  const fettle_cpu_module* module;
  void** arguments;
  unsigned grid[3], block[3];
  std::size_t shared_bytes;
  bool fibers;
};

class Runner {
 public:
  enum class Op : unsigned char { kShuffle, kBallot, kMatch, kReduce, kSync };

  static Runner*& current() {
    static thread_local Runner* runner = nullptr;
    return runner;
  }
  ~Runner() {
    if (stacks_ != nullptr) munmap(stacks_, stack_bytes_);
    std::free(dynamic_);
  }

  // False: no memory.
  bool begin(const Job& job) {
    job_ = &job;
    lanes_ = job.module->lanes;
    threads_ = static_cast<int>(job.block[0] * job.block[1] * job.block[2]);
    if (dynamic_bytes_ < job.shared_bytes || dynamic_ == nullptr) {
      std::free(dynamic_);
      dynamic_bytes_ = (job.shared_bytes + 255) / 256 * 256 + 256;
      dynamic_ = std::aligned_alloc(256, dynamic_bytes_);
      if (dynamic_ == nullptr) return false;
    }
    if (job.fibers && !reserve(threads_)) return false;
    int i = 0;
    for (unsigned z = 0; z < job.block[2]; ++z) {
      for (unsigned y = 0; y < job.block[1]; ++y) {
        for (unsigned x = 0; x < job.block[0] && i < kMost; ++x) index_[i++] = {x, y, z};
      }
    }
    if (job.module->set_launch != nullptr) job.module->set_launch(job.block, job.grid, dynamic_);
    current() = this;
    return true;
  }
  void end() { current() = nullptr; }

  // False: the kernel trapped.
  bool run_block(std::uint64_t number) {
    const Job& job = *job_;
    block_ = {static_cast<unsigned>(number % job.grid[0]), static_cast<unsigned>(number / job.grid[0] % job.grid[1]),
              static_cast<unsigned>(number / job.grid[0] / job.grid[1])};
    if (job.module->set_block != nullptr) job.module->set_block(block_.x, block_.y, block_.z);
    trapped_ = false;
    if (!job.fibers) {
      if (setjmp(escape_) != 0) return false;
      job.entry->loop(job.arguments);
      return true;
    }
    for (int w = 0; w < kWords; ++w) {
      const int left = threads_ - w * 64;
      ready_[w] = left <= 0 ? 0 : left >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << left) - 1;
      barrier_[w] = warp_[w] = 0;
    }
    alive_ = threads_;
    at_barrier_ = 0;
    here_ = 0;
    vote_ = -1;
    in_fiber_ = true;
    switch_stack(&main_, pointers_[0]);
    in_fiber_ = false;
    if (trapped_) restart();
    return !trapped_;
  }
  [[noreturn]] void trap(int line, const char* message) {
    std::fprintf(stderr, "fettle: a kernel stopped at line %d: %s\n", line, message);
    trapped_ = true;
    if (in_fiber_) {
      void* unused;
      switch_stack(&unused, main_);
    }
    std::longjmp(escape_, 1);
  }

  const Job& job() const { return *job_; }
  fettle_uint3 block() const { return block_; }
  fettle_uint3 thread() const { return index_[here_]; }
  unsigned linear() const { return static_cast<unsigned>(here_); }
  unsigned lane() const { return static_cast<unsigned>(here_ & (lanes_ - 1)); }
  void* dynamic_shared() const { return dynamic_; }

  void wait_at_barrier(int line) {
    if (!in_fiber_) trap(line, "a wait was reached outside of a fiber");
    clear(ready_, here_);
    set(barrier_, here_);
    ++at_barrier_;
    run_next();
  }
  int vote(int predicate, int kind, int line) {
    value_[here_] = predicate != 0 ? 1 : 0;
    vote_ = kind;
    wait_at_barrier(line);
    return vote_result_;
  }
  std::uint64_t warp(Op op, std::uint64_t value, int source, int reduction, std::uint64_t mask, int line,
                     std::uint64_t* active) {
    if (!in_fiber_) trap(line, "a warp operation was reached outside of a fiber");
    const int me = here_;
    op_[me] = op;
    value_[me] = value;
    source_[me] = source;
    reduction_[me] = reduction;
    mask_[me] = mask;
    line_[me] = line;
    clear(ready_, me);
    set(warp_, me);
    run_next();
    if (active != nullptr) *active = active_[me];
    return result_[me];
  }

 private:
  static constexpr int kMost = 1024, kWords = kMost / 64;
  static constexpr std::size_t kGuard = 4096, kStack = 64 * 1024, kStride = kStack + kGuard;

  static void set(std::uint64_t* words, int i) { words[i >> 6] |= std::uint64_t{1} << (i & 63); }
  static void clear(std::uint64_t* words, int i) { words[i >> 6] &= ~(std::uint64_t{1} << (i & 63)); }
  std::uint64_t of_warp(const std::uint64_t* words, int i) const {
    return lanes_ == 64 ? words[i >> 6] : (words[i >> 6] >> (i & 32)) & 0xffffffffu;
  }
  int warp_start(int i) const { return i & ~(lanes_ - 1); }

  static void fiber() {
    for (;;) {
      Runner* runner = current();
      runner->job_->entry->thread(runner->job_->arguments);
      clear(runner->ready_, runner->here_);
      --runner->alive_;
      runner->run_next();
    }
  }
  // Stack tops are staggered over the sets of the first-level cache.
  void prepare(int i) {
    const std::uintptr_t low = reinterpret_cast<std::uintptr_t>(stacks_) + kGuard;
    const std::uintptr_t top = low + static_cast<std::uintptr_t>(i) * kStride + kStack -
                               static_cast<std::uintptr_t>(i * 5 % 32) * 64 - 64;
    void** stack = reinterpret_cast<void**>(top & ~std::uintptr_t{15});
    *--stack = nullptr;
    *--stack = reinterpret_cast<void*>(&Runner::fiber);
    for (int r = 0; r < 6; ++r) *--stack = nullptr;
    pointers_[i] = stack;
  }
  void restart() {
    for (int i = 0; i < stack_count_; ++i) prepare(i);
  }
  bool reserve(int count) {
    if (count > kMost) return false;
    if (count <= stack_count_) return true;
    if (stacks_ != nullptr) munmap(stacks_, stack_bytes_);
    stack_count_ = 0;
    stack_bytes_ = kStride * static_cast<std::size_t>(count);
    stacks_ = mmap(nullptr, stack_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks_ == MAP_FAILED) {
      stacks_ = nullptr;
      return false;
    }
    for (int i = 0; i < count; ++i) {
      mprotect(static_cast<char*>(stacks_) + static_cast<std::size_t>(i) * kStride, kGuard, PROT_NONE);
    }
    stack_count_ = count;
    restart();
    return true;
  }

  void go(int next) {
    const int from = here_;
    here_ = next;
    if (next != from) switch_stack(&pointers_[from], pointers_[next]);
  }
  // The current thread waits or has ended: continues with another, the rest of its warp first.
  void run_next() {
    for (;;) {
      const std::uint64_t same = of_warp(ready_, here_);
      if (same != 0) {
        const int lane = here_ & (lanes_ - 1);
        const std::uint64_t later = lane == 63 ? 0 : same & ~((std::uint64_t{2} << lane) - 1);
        return go(warp_start(here_) + __builtin_ctzll(later != 0 ? later : same));
      }
      if (of_warp(warp_, here_) != 0) {
        resolve(here_);
        continue;
      }
      const int words = (threads_ + 63) / 64, word = here_ >> 6;
      for (int step = 0; step <= words; ++step) {
        const int w = (word + step) % words;
        if (ready_[w] != 0) return go(w * 64 + __builtin_ctzll(ready_[w]));
      }
      if (alive_ == 0) {
        switch_stack(&pointers_[here_], main_);
        return;
      }
      if (at_barrier_ == alive_) {
        release_barrier();
        continue;
      }
      int waiting = 0;
      while (waiting < threads_ && of_warp(warp_, waiting) == 0) waiting += lanes_;
      if (waiting >= threads_) trap(0, "no thread of a block can go on");
      resolve(waiting);
    }
  }
  void release_barrier() {
    if (vote_ >= 0) {
      int count = 0;
      for (int i = 0; i < threads_; ++i) {
        if ((barrier_[i >> 6] >> (i & 63) & 1) != 0 && value_[i] != 0) ++count;
      }
      vote_result_ = vote_ == FETTLE_VOTE_COUNT ? count
                     : vote_ == FETTLE_VOTE_AND ? (count == at_barrier_ ? 1 : 0)
                                                : (count > 0 ? 1 : 0);
      vote_ = -1;
    }
    for (int w = 0; w < kWords; ++w) {
      ready_[w] |= barrier_[w];
      barrier_[w] = 0;
    }
    at_barrier_ = 0;
  }
  // All lanes of the thread's warp wait or have ended: those at the lowest line execute.
  void resolve(int thread) {
    const int start = warp_start(thread);
    const std::uint64_t waiting = of_warp(warp_, thread);
    int lowest = 0x7fffffff, leader = -1;
    std::uint64_t group = 0;
    for (std::uint64_t left = waiting; left != 0; left &= left - 1) {
      const int line = line_[start + __builtin_ctzll(left)];
      if (line < lowest) lowest = line;
    }
    for (std::uint64_t left = waiting; left != 0; left &= left - 1) {
      const int i = start + __builtin_ctzll(left);
      if (line_[i] != lowest) continue;
      if (leader < 0) leader = i;
      if (op_[i] == op_[leader] && mask_[i] == mask_[leader]) group |= std::uint64_t{1} << (i - start);
    }
    execute(start, leader, group);
    const std::uint64_t bits = lanes_ == 64 ? group : group << (leader & 32);
    warp_[leader >> 6] &= ~bits;
    ready_[leader >> 6] |= bits;
  }
  void execute(int start, int leader, std::uint64_t group) {
    std::uint64_t all = op_[leader] == Op::kReduce ? value_[leader] : 0;
    for (std::uint64_t left = group; left != 0; left &= left - 1) {
      const int i = start + __builtin_ctzll(left);
      if (op_[leader] == Op::kBallot && value_[i] != 0) all |= std::uint64_t{1} << (i - start);
      if (op_[leader] == Op::kReduce && i != leader) all = combine(reduction_[leader], all, value_[i]);
    }
    for (std::uint64_t left = group; left != 0; left &= left - 1) {
      const int i = start + __builtin_ctzll(left);
      active_[i] = group;
      if (op_[leader] == Op::kShuffle) {
        const int source = source_[i];
        const bool own = source < 0 || source == i - start;
        const bool live = !own && source < lanes_ && (group >> source & 1) != 0;
        result_[i] = own ? value_[i] : live ? value_[start + source] : 0;
      } else if (op_[leader] == Op::kMatch) {
        result_[i] = 0;
        for (std::uint64_t other = group; other != 0; other &= other - 1) {
          const int k = __builtin_ctzll(other);
          if (value_[start + k] == value_[i]) result_[i] |= std::uint64_t{1} << k;
        }
      } else {
        result_[i] = all;
      }
    }
  }
  static std::uint64_t combine(int reduction, std::uint64_t a, std::uint64_t b) {
    const std::int64_t sa = static_cast<std::int64_t>(a), sb = static_cast<std::int64_t>(b);
    switch (reduction) {
      case FETTLE_RED_ADD: return a + b;
      case FETTLE_RED_MIN: return sa < sb ? a : b;
      case FETTLE_RED_MAX: return sa < sb ? b : a;
      case FETTLE_RED_AND: return a & b;
      case FETTLE_RED_OR: return a | b;
      case FETTLE_RED_XOR: return a ^ b;
      case FETTLE_RED_UMIN: return a < b ? a : b;
      default: return a < b ? b : a;
    }
  }

  const Job* job_ = nullptr;
  void* stacks_ = nullptr;
  std::size_t stack_bytes_ = 0, dynamic_bytes_ = 0;
  void *dynamic_ = nullptr, *main_ = nullptr;
  int stack_count_ = 0, lanes_ = 32, threads_ = 0, here_ = 0, alive_ = 0, at_barrier_ = 0, vote_ = -1, vote_result_ = 0;
  bool in_fiber_ = false;
  volatile bool trapped_ = false;
  std::jmp_buf escape_;
  fettle_uint3 block_{0, 0, 0};
  std::uint64_t ready_[kWords] = {}, barrier_[kWords] = {}, warp_[kWords] = {};
  void* pointers_[kMost] = {};
  fettle_uint3 index_[kMost] = {};
  Op op_[kMost] = {};
  int source_[kMost] = {}, reduction_[kMost] = {}, line_[kMost] = {};
  std::uint64_t value_[kMost] = {}, mask_[kMost] = {}, result_[kMost] = {}, active_[kMost] = {};
};

// Threads that run the blocks of launches; the calling thread is one of them. One launch at a time:
// concurrent callers take turns.
class Pool {
 public:
  static Pool& instance() {
    static Pool* pool = new Pool;  // Never destroyed: kernels may run until the end of the program.
    return *pool;
  }
  int size() const { return static_cast<int>(threads_.size()) + 1; }

  bool run(const Job& job) {
    const std::lock_guard<std::mutex> turn(turn_);
    blocks_ = std::uint64_t{job.grid[0]} * job.grid[1] * job.grid[2];
    const std::uint64_t wanted = blocks_ < static_cast<std::uint64_t>(size()) ? blocks_ : static_cast<std::uint64_t>(size());
    chunk_ = blocks_ / (wanted * 16) > 0 ? blocks_ / (wanted * 16) : 1;
    next_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    job_ = &job;
    if (wanted > 1) {
      const std::lock_guard<std::mutex> lock(mutex_);
      busy_ = static_cast<int>(threads_.size());
      ++generation_;
      wake_.notify_all();
    }
    work(mine_);
    if (wanted > 1) {
      std::unique_lock<std::mutex> lock(mutex_);
      done_.wait(lock, [this] { return busy_ == 0; });
    }
    return !failed_.load(std::memory_order_relaxed);
  }

 private:
  Pool() {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    for (int i = 1; i < cores; ++i) {
      threads_.emplace_back([this] { serve(); });
      threads_.back().detach();
    }
  }
  void serve() {
    std::unique_ptr<Runner> runner(new Runner);
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return generation_ != seen; });
        seen = generation_;
      }
      work(*runner);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }
  void work(Runner& runner) {
    if (!runner.begin(*job_)) {
      failed_.store(true, std::memory_order_relaxed);
      return;
    }
    while (!failed_.load(std::memory_order_relaxed)) {
      const std::uint64_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
      if (begin >= blocks_) break;
      const std::uint64_t end = begin + chunk_ < blocks_ ? begin + chunk_ : blocks_;
      for (std::uint64_t i = begin; i < end; ++i) {
        if (!runner.run_block(i)) failed_.store(true, std::memory_order_relaxed);
      }
    }
    runner.end();
  }

  std::mutex turn_, mutex_;
  std::condition_variable wake_, done_;
  const Job* job_ = nullptr;
  std::uint64_t blocks_ = 0, chunk_ = 1, generation_ = 0;
  int busy_ = 0;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  Runner mine_;  // Of the caller whose turn it is.
  std::vector<std::thread> threads_;
};

inline void* load(const unsigned char* bytes, std::size_t size, const char** problem);
inline void unload(void* pointer) {
  Module* module = static_cast<Module*>(pointer);
  if (module->handle != nullptr) dlclose(module->handle);
  if (module->file >= 0) close(module->file);
  delete module;
}
inline void* function(void* module, const char* symbol) { return dlsym(static_cast<Module*>(module)->handle, symbol); }
inline int launch(void* module, void* function, bool waits, const unsigned grid[3], const unsigned block[3],
                  std::size_t shared, void** parameters) {
  constexpr int kFailed = 719;  // As the GPU vendors number a kernel that failed.
  Job job{};
  job.entry = static_cast<const fettle_cpu_entry*>(function);
  job.module = static_cast<Module*>(module)->facts;
  job.arguments = parameters;
  for (int i = 0; i < 3; ++i) {
    job.grid[i] = grid[i];
    job.block[i] = block[i];
  }
  job.shared_bytes = shared;
  job.fibers = waits || job.entry->loop == nullptr;
  return Pool::instance().run(job) ? 0 : kFailed;
}

}  // namespace cpu_host_detail

inline const CpuHost* cpu_host() {
  static const CpuHost host{cpu_host_detail::load, cpu_host_detail::unload, cpu_host_detail::function,
                            cpu_host_detail::launch};
  return &host;
}
inline std::int64_t cpu_cores() { return cpu_host_detail::Pool::instance().size(); }

}  // namespace runtime_1
}  // namespace fettle

// What kernels call. One definition for all bundles of a program: the ABI is that of cpu_abi.h.
#define FETTLE_RT extern "C" __attribute__((used, visibility("default"))) inline
#define FETTLE_RUNNER (*::fettle::cpu_host_detail::Runner::current())
using fettle_rt_op = ::fettle::cpu_host_detail::Runner::Op;

FETTLE_RT fettle_uint3 fettle_rt_thread_index() { return FETTLE_RUNNER.thread(); }
FETTLE_RT fettle_uint3 fettle_rt_block_index() { return FETTLE_RUNNER.block(); }
FETTLE_RT fettle_uint3 fettle_rt_block_size() {
  const unsigned* n = FETTLE_RUNNER.job().block;
  return {n[0], n[1], n[2]};
}
FETTLE_RT fettle_uint3 fettle_rt_grid_size() {
  const unsigned* n = FETTLE_RUNNER.job().grid;
  return {n[0], n[1], n[2]};
}
FETTLE_RT unsigned fettle_rt_lane() { return FETTLE_RUNNER.lane(); }
FETTLE_RT void* fettle_rt_dynamic_shared() { return FETTLE_RUNNER.dynamic_shared(); }
FETTLE_RT void fettle_rt_begin_thread(unsigned index[4]) {
  const fettle_uint3 here = FETTLE_RUNNER.thread();
  index[0] = here.x;
  index[1] = here.y;
  index[2] = here.z;
  index[3] = FETTLE_RUNNER.linear();
}
FETTLE_RT void fettle_rt_barrier(int line, const char*) { FETTLE_RUNNER.wait_at_barrier(line); }
FETTLE_RT int fettle_rt_barrier_vote(int predicate, int vote, int line) {
  return FETTLE_RUNNER.vote(predicate, vote, line);
}
FETTLE_RT uint64_t fettle_rt_shuffle(uint64_t value, int source_lane, uint64_t mask, int line) {
  return FETTLE_RUNNER.warp(fettle_rt_op::kShuffle, value, source_lane, 0, mask, line, nullptr);
}
FETTLE_RT uint64_t fettle_rt_ballot(int predicate, uint64_t mask, int line, uint64_t* active) {
  return FETTLE_RUNNER.warp(fettle_rt_op::kBallot, predicate != 0 ? 1 : 0, 0, 0, mask, line, active);
}
FETTLE_RT uint64_t fettle_rt_match(uint64_t value, uint64_t mask, int line) {
  return FETTLE_RUNNER.warp(fettle_rt_op::kMatch, value, 0, 0, mask, line, nullptr);
}
FETTLE_RT uint64_t fettle_rt_reduce(uint64_t value, int reduction, uint64_t mask, int line) {
  return FETTLE_RUNNER.warp(fettle_rt_op::kReduce, value, 0, reduction, mask, line, nullptr);
}
FETTLE_RT void fettle_rt_warp_sync(uint64_t mask, int line) {
  FETTLE_RUNNER.warp(fettle_rt_op::kSync, 0, 0, 0, mask, line, nullptr);
}
FETTLE_RT void fettle_rt_grid_sync(int line) { FETTLE_RUNNER.trap(line, "grid-wide sync is not supported on the cpu target"); }
FETTLE_RT void fettle_rt_fence(int) { asm volatile("mfence" ::: "memory"); }
FETTLE_RT void fettle_rt_trap(int line, const char* message) { FETTLE_RUNNER.trap(line, message); }
FETTLE_RT void fettle_rt_note(int, const char*) {}
FETTLE_RT void fettle_rt_atomic(const volatile void*, int, void*) {}
FETTLE_RT unsigned long long fettle_rt_clock() { return __builtin_ia32_rdtsc(); }

#undef FETTLE_RUNNER
#undef FETTLE_RT

namespace fettle {
inline namespace runtime_1 {
namespace cpu_host_detail {

inline void* load(const unsigned char* bytes, std::size_t size, const char** problem) {
  // Kernels find the functions above in the global scope: a library that was itself loaded locally
  // (a Python extension) is made global here.
  Dl_info where{};
  if (dladdr(reinterpret_cast<void*>(&fettle_rt_lane), &where) != 0 && where.dli_fname != nullptr) {
    if (void* self = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL)) dlclose(self);
  }
  std::unique_ptr<Module> module(new Module);
  module->file = memfd_create("fettle-module", MFD_CLOEXEC);
  bool written = module->file >= 0;
  for (std::size_t at = 0; written && at < size;) {
    const ssize_t n = write(module->file, bytes + at, size - at);
    written = n > 0;
    if (written) at += static_cast<std::size_t>(n);
  }
  if (!written) {
    *problem = "an object cannot be copied to memory";
    if (module->file >= 0) close(module->file);
    return nullptr;
  }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", module->file);
  module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module->handle == nullptr) {
    *problem = "an object cannot be loaded; does the program export the fettle_rt_ symbols (-rdynamic)?";
    close(module->file);
    return nullptr;
  }
  module->facts = static_cast<const fettle_cpu_module*>(dlsym(module->handle, "fettle_cpu_module_info"));
  if (module->facts == nullptr || module->facts->abi != FETTLE_CPU_ABI || module->facts->check != 0) {
    *problem = "an object was made for another version of the cpu host";
    unload(module.release());
    return nullptr;
  }
  return module.release();
}

}  // namespace cpu_host_detail
}  // namespace runtime_1
}  // namespace fettle

#endif  // FETTLE_CPU_HOST_1_HPP
