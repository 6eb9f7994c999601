// SPDX-License-Identifier: Apache-2.0
#include "verifier/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace fettle {

void ParallelFor(std::int64_t count, std::int64_t least,
                 const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  const std::int64_t cores = std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, 16);
  const std::int64_t chunk =
      std::max(std::max<std::int64_t>(least, 1), (count + 4 * cores - 1) / (4 * cores));
  const std::int64_t chunks = (count + chunk - 1) / chunk;
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i = next++; i < chunks; i = next++) {
      body(i * chunk, std::min(count, (i + 1) * chunk));
    }
  };
  std::vector<std::thread> threads;
  for (std::int64_t i = 1; i < std::min(cores, chunks); ++i) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      break;
    }
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace fettle
