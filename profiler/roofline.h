// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/bound.h"
#include "core/evidence.h"

namespace fettle {

// What one device was measured to reach; 0: unknown.
struct Ceilings {
  double bytes_per_s = 0;         // Memory, with data larger than every cache.
  double cached_bytes_per_s = 0;  // With data that stays in the caches.
  double flops_per_s = 0;
};

// The least time that the task's own work takes at the ceilings; 0 where nothing is known.
// `cold`: the buffers were rotated through more memory than the caches hold.
double FloorNs(double work_bytes, double work_flops, const Ceilings& ceilings, bool cold);

// Fills the achieved rates and, where ceilings are known, floor and fraction from b's median.
// Estimated work gives rates but no floor, because it is no lower bound.
void ApplyRoofline(const BoundCase& bound_case, const Ceilings& ceilings, bool cold,
                   CaseMeasurement& measurement);

}  // namespace fettle
