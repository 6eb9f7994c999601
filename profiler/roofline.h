// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/bound.h"
#include "core/evidence.h"

namespace fettle {

// What one device was measured to reach; 0: unknown.
struct Ceilings {
  double bytes_per_s = 0;         // Memory, with data larger than every cache.
  double cached_bytes_per_s = 0;  // With data that stays in the caches.
  double flops_per_s = 0;         // Dense matrix multiplication of 16-bit elements.
  double flops8_per_s = 0;        // The same of 8-bit elements.
};

// The least times that the task's own work takes at the ceilings; 0 where nothing is known.
struct Floor {
  double memory_ns = 0, compute_ns = 0;
  double ns() const;
};
// `flops_per_s`: CeilingFlops of the case. `cold`: the buffers were rotated through more memory
// than the caches hold.
Floor FloorOf(double work_bytes, double work_flops, const Ceilings& ceilings, double flops_per_s,
              bool cold);

// The fastest arithmetic that any version of the operator might use: an f32 task may split its
// values into 16-bit ones where its tolerance permits, an operator on 8-bit values may use those. 0
// where no such rate was measured, and for work on integers alone.
double CeilingFlops(const BoundCase& bound_case, const Ceilings& ceilings);

// Fills the achieved rates and, where ceilings are known, floor and fraction from b's median;
// arithmetic alone never gives a fraction above 1.
// Estimated work gives rates but no floor, because it is no lower bound.
void ApplyRoofline(const BoundCase& bound_case, const Ceilings& ceilings, bool cold,
                   CaseMeasurement& measurement);

// Whether `median_ns` is less than the case's work can take, so that the clock or the work formula
// must be wrong. The clock of a device under load depends on the data, so arithmetic gets more room
// than memory.
bool BeatsFloor(const BoundCase& bound_case, const Ceilings& ceilings, bool cold, double median_ns);

}  // namespace fettle
