// Where timed cases stand under a device's ceilings.

import type { VariantCase } from "../api/types";

export interface RooflinePoint {
  intensity: number; // flop per byte
  flops: number; // flop/s
  source: VariantCase;
}
export interface Ceilings {
  bytesPerSecond: number; // 0: not known.
  flopsPerSecond: number; // 0: no case is bound by it, so the stored floors do not tell it.
}

/** Cases that have both bytes and flops; the others cannot be placed. */
export function place(cases: VariantCase[]): { points: RooflinePoint[]; unplaced: number } {
  const points: RooflinePoint[] = [];
  for (const one of cases) {
    if (!(one.bytes_per_s > 0) || !(one.flops_per_s > 0)) continue;
    points.push({ intensity: one.flops_per_s / one.bytes_per_s, flops: one.flops_per_s, source: one });
  }
  return { points, unplaced: cases.length - points.length };
}

/**
 * The ceilings that the stored floors were made with. A case's floor is the longer of its bytes over
 * the memory ceiling and its flops over the arithmetic one, so that its rate over its fraction is a
 * ceiling where that one binds, and less elsewhere.
 */
export function ceilingsOf(cases: VariantCase[]): Ceilings {
  const known = cases.filter((one) => one.roofline_fraction > 0);
  const memory = Math.max(0, ...known.map((one) => one.bytes_per_s / one.roofline_fraction));
  const bound = known.filter((one) => one.flops_per_s > 0 && one.bytes_per_s / one.roofline_fraction < memory * 0.98);
  // Bound by arithmetic on the same device would give one value; several mean another cause.
  const rates = bound.map((one) => one.flops_per_s / one.roofline_fraction);
  const peak = Math.max(0, ...rates);
  const agree = rates.filter((rate) => rate > peak * 0.98).length;
  return { bytesPerSecond: memory, flopsPerSecond: agree >= 2 ? peak : 0 };
}
