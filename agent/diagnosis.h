// SPDX-License-Identifier: Apache-2.0
#pragma once

// What limits a kernel, in words, from the evidence alone: deterministic, no model. Where the
// evidence disagrees the diagnosis says so, since a plan made on doubtful evidence is worse than
// none.

#include <initializer_list>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "agent/hardware_card.h"
#include "core/work_unit.h"

namespace fettle {

struct Diagnosis {
  // memory, compute, latency, launch, registers, occupancy, shared, near_limit or unknown.
  std::string bottleneck = "unknown";
  // What advice is wanted, most wanted first (HardwareCard::Advice::topics and the playbook's).
  std::vector<std::string> topics;
  bool evidence_agrees = true;
  std::vector<std::string> lines;  // One finding each, with its numbers.
  double declared_bytes = 0;       // What the first timed case must move; 0: unknown.
};

// Adds topics that are not there yet, before "general".
void AddTopics(Diagnosis& diagnosis, std::initializer_list<const char*> topics);

// `result`: an evaluation with a measurement; `card` may be null.
Diagnosis Diagnose(const UnitResult& result, const HardwareCard* card,
                   std::string_view device_model);
nlohmann::json ToJson(const Diagnosis& diagnosis);

}  // namespace fettle
