// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every cap of the service in one place.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace fettle::limits {

inline constexpr std::size_t kMaxTaskBlobBytes = 64U << 20;
inline constexpr std::size_t kMaxKernelJsonBytes = 4U << 20;
inline constexpr std::size_t kMaxOptionsBytes = 64U << 10;
inline constexpr std::size_t kMaxNameBytes = 200;  // Request ids, task names, worker ids.
inline constexpr std::size_t kMaxResultJsonBytes = 48U << 20;
inline constexpr std::size_t kMaxBlobBytes = 512U << 20;  // One StoreBlob upload.
inline constexpr std::size_t kBlobChunkBytes = 1U << 20;
inline constexpr std::size_t kMaxErrorMessageBytes = 1024;  // gRPC sends it in a header.
inline constexpr std::size_t kMaxRationaleBytes = 16U << 10;

inline constexpr int kMaxPageSize = 500;
inline constexpr int kDefaultPageSize = 100;
inline constexpr int kWatchPage = 64;  // Events read at a time for a stream.
inline constexpr std::size_t kMaxHasBlobs = 10'000;

inline constexpr int kMaxWorkers = 1024;
inline constexpr std::size_t kMaxWorkerStateBytes = 64U << 10;  // Of one heartbeat.
inline constexpr int kMaxSlots = 64;          // Units one worker may hold at once.
inline constexpr int kMaxQueuedCalls = 1000;  // Unary calls waiting for a thread.
inline constexpr int kMaxActiveJobs = 8;      // Others wait in the queue.
inline constexpr int kMaxWaitingJobs = 256;   // Besides: those that wait for models or clients.
inline constexpr int kMaxOpenJobs = 10'000;
inline constexpr int kMaxUnitAttempts = 3;      // Failed ones; then the unit is poison.
inline constexpr int kMaxAttemptsInAll = 20;    // Those that say nothing about the unit too.
inline constexpr int kMaxPoisonInARow = 5;      // Then the job fails.
inline constexpr int kMaxDuplicateRounds = 20;  // Proposals seen before, in a row.

inline constexpr std::int64_t kMaxBudgetCandidates = 10'000'000;
inline constexpr std::int64_t kUnlimitedCandidates =
    1'000'000;  // What "no limit" means to a proposer.
inline constexpr std::int64_t kUnitDeadlineMs = 120'000;
inline constexpr std::int64_t kRegisterDeadlineMs = 600'000;
inline constexpr std::int64_t kConfirmDeadlineMs = 300'000;

inline constexpr std::chrono::milliseconds kHeartbeat{1'000};
inline constexpr std::chrono::milliseconds kHeartbeatLost{4'500};  // Silence that ends a session.
// A confirmation waits so long for another device than the one that was fast before.
inline constexpr std::chrono::milliseconds kOtherDevice{5'000};
// A unit waits so long for a worker that compiles it ahead, and is lost with so many of them.
inline constexpr std::chrono::milliseconds kCompileAhead{150'000};
inline constexpr int kMaxCompilersLost = 2;
inline constexpr std::chrono::milliseconds kLeaseSlack{5'000};  // Beyond the unit's deadline.
// A worker that was told to stop a unit says within this time what device time it took.
inline constexpr std::chrono::milliseconds kCancelGrace{5'000};
inline constexpr std::chrono::milliseconds kRetryPause{1'000};  // After a full disk.
inline constexpr std::chrono::milliseconds kDrain{1'000};       // Shutdown waits so long for calls.

}  // namespace fettle::limits
