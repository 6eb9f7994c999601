// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace fettle {

// Splits [0, count) into contiguous chunks of at least `least` and runs `body(begin, end)` on up to
// one thread per core, the caller's included. Where no thread can be started (a sandbox), the
// caller does everything. `body` must not throw and must not depend on the split.
void ParallelFor(std::int64_t count, std::int64_t least,
                 const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace fettle
