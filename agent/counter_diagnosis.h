// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "agent/diagnosis.h"

namespace fettle {

// Adds to a diagnosis what hardware counters of one call of the first timed case show: traffic
// against the declared bytes, cache hits, bank conflicts, how busy the units are, what warps wait
// for. `counters` as ToJson(CounterReport) of profiler/counters.h; where they are absent a line
// says why, and nothing else changes. Counters never decide a verdict; they may contradict a
// bottleneck that times and the work formula suggest, and then the evidence does not agree.
void ReadCounters(const nlohmann::json& counters, Diagnosis& diagnosis);

}  // namespace fettle
