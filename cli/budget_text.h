// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "fettle/v1/optimizer.pb.h"

namespace fettle {

// What is spent of each kind that is limited or used, as "12 of 100 candidates, 41.2 device
// seconds, 120,300 of 2,000,000 tokens"; empty: nothing is. What a call under way may cost at most
// counts as spent.
std::string SpentText(const v1::Budget& spent, const v1::Budget& limit);

// A bar with the limited kind that is nearest to its end, which decides when a job ends; empty:
// none is limited.
std::string NearestBudget(const v1::Budget& spent, const v1::Budget& limit);

}  // namespace fettle
