// SPDX-License-Identifier: Apache-2.0
#include "profiler/roofline.h"

#include <algorithm>

namespace fettle {

double FloorNs(double work_bytes, double work_flops, const Ceilings& ceilings, bool cold) {
  const double bytes_per_s =
      cold ? ceilings.bytes_per_s : std::max(ceilings.bytes_per_s, ceilings.cached_bytes_per_s);
  double floor_s = 0;
  if (bytes_per_s > 0) floor_s = work_bytes / bytes_per_s;
  if (ceilings.flops_per_s > 0) floor_s = std::max(floor_s, work_flops / ceilings.flops_per_s);
  return floor_s * 1e9;
}

void ApplyRoofline(const BoundCase& bound_case, const Ceilings& ceilings, bool cold,
                   CaseMeasurement& measurement) {
  const double seconds = measurement.b_median_ns * 1e-9;
  if (seconds <= 0) return;
  measurement.bytes_per_s = bound_case.work_bytes / seconds;
  measurement.flops_per_s = bound_case.work_flops / seconds;
  if (bound_case.work_is_estimate) return;
  measurement.floor_ns = FloorNs(bound_case.work_bytes, bound_case.work_flops, ceilings, cold);
  measurement.roofline_fraction = measurement.floor_ns / measurement.b_median_ns;
}

}  // namespace fettle
