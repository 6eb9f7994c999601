// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_faults.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <ctime>
#include <mutex>
#include <string>

#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "device/cpu_block.h"
#include "device/cpu_memory.h"

namespace fettle {
namespace {

constexpr std::size_t kSignalStack = 64 * 1024;

// Signal handlers reach only static data.
constexpr std::size_t kMaxThreads = 512;
std::array<std::atomic<pid_t>, kMaxThreads> kernel_threads;
std::atomic<bool> deadline_armed{false}, deadline_expired{false};
timer_t deadline_timer;
bool has_timer = false;

int DeadlineSignal() { return SIGRTMIN + 7; }

CheckFinding DescribeFault(int signal, const siginfo_t& info, bool write,
                           const CpuBlockRunner& runner) {
  CheckFinding finding;
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  bool in_guard = false;
  if (signal == SIGFPE) {
    finding.kind = "fault.arithmetic";
    finding.message = "integer division by zero or overflow";
  } else if (signal == SIGILL) {
    finding.kind = "fault.instruction";
    finding.message = "illegal instruction";
  } else if (const CpuBuffer* owner = CpuBuffer::Owner(address); owner != nullptr) {
    finding.kind = write ? "oob.write" : "oob.read";
    finding.message = owner->DescribeOutside(address);
  } else if (runner.stacks().Find(address, &in_guard) >= 0 && in_guard) {
    finding.kind = "fault.stack";
    finding.message = "local variables of a thread do not fit its 64 KiB stack";
  } else {
    finding.kind = write ? "oob.write" : "oob.read";
    finding.message = fmt::format("address {:#x}, which belongs to no buffer", address);
  }
  finding.message += ", " + runner.Where();
  return finding;
}

void OnFault(int signal, siginfo_t* info, void* context) {
  CpuBlockRunner* runner = CpuBlockRunner::Current();
  if (runner == nullptr || !runner->in_kernel()) {
    std::signal(signal, SIG_DFL);  // Not a kernel's: die of it.
    raise(signal);
    return;
  }
  const auto* machine = static_cast<const ucontext_t*>(context);
  const bool write = signal == SIGSEGV && (machine->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  runner->launch().findings->Add(DescribeFault(signal, *info, write, *runner), "");
  runner->AbandonFromSignal();
}

// Comes from the timer to any thread and is passed on to those that run kernels.
void OnDeadline(int signal, siginfo_t* info, void* /*context*/) {
  if (!deadline_armed) return;  // Of an earlier launch, delivered late.
  deadline_expired = true;
  if (info->si_code == SI_TIMER) {
    const pid_t self = static_cast<pid_t>(syscall(SYS_gettid));
    for (const std::atomic<pid_t>& slot : kernel_threads) {
      const pid_t thread = slot.load();
      if (thread != 0 && thread != self) {
        syscall(SYS_tgkill, static_cast<long>(getpid()), static_cast<long>(thread),
                static_cast<long>(signal));
      }
    }
  }
  CpuBlockRunner* runner = CpuBlockRunner::Current();
  if (runner != nullptr && runner->in_kernel() && !RuntimeGuard::Active())
    runner->AbandonFromSignal();
}

void Install(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void InstallFaultHandlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) Install(signal, OnFault);
    Install(DeadlineSignal(), OnDeadline);
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = DeadlineSignal();
    has_timer = timer_create(CLOCK_MONOTONIC, &event, &deadline_timer) == 0;
  });
}

FaultStack::FaultStack() : memory_(new char[kSignalStack]) {
  stack_t stack = {};
  stack.ss_sp = memory_.get();
  stack.ss_size = kSignalStack;
  sigaltstack(&stack, nullptr);
}

FaultStack::~FaultStack() {
  stack_t stack = {};
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
}

LaunchDeadline::LaunchDeadline(std::chrono::nanoseconds limit) {
  deadline_expired = false;
  if (!has_timer || limit.count() <= 0) return;
  itimerspec when = {};
  when.it_value.tv_sec = limit.count() / 1000000000;
  when.it_value.tv_nsec = limit.count() % 1000000000;
  // Again and again: a signal may come while a thread writes a finding, which it must finish.
  when.it_interval.tv_nsec = 20000000;
  deadline_armed = true;
  armed_ = timer_settime(deadline_timer, 0, &when, nullptr) == 0;
}

LaunchDeadline::~LaunchDeadline() {
  if (!armed_) return;
  deadline_armed = false;
  const itimerspec off = {};
  timer_settime(deadline_timer, 0, &off, nullptr);
}

bool LaunchDeadline::Expired() { return deadline_expired.load(std::memory_order_relaxed); }

void RegisterKernelThread() {
  const pid_t self = static_cast<pid_t>(syscall(SYS_gettid));
  for (std::atomic<pid_t>& slot : kernel_threads) {
    pid_t expected = 0;
    if (slot.load() == self || slot.compare_exchange_strong(expected, self)) return;
  }
}

void UnregisterKernelThread() {
  const pid_t self = static_cast<pid_t>(syscall(SYS_gettid));
  for (std::atomic<pid_t>& slot : kernel_threads) {
    pid_t expected = self;
    if (slot.compare_exchange_strong(expected, 0)) return;
  }
}

}  // namespace fettle
