// Where timed cases stand under a device's ceilings.

import type { DeviceReport, VariantCase } from "../api/types";

export interface RooflinePoint {
  intensity: number; // flop per byte
  flops: number; // flop/s
  source: VariantCase;
}
export interface Ceilings {
  bytesPerSecond: number; // 0: not known.
  cachedBytesPerSecond: number; // With data that stays in the caches.
  flopsPerSecond: number; // Dense matrix multiplication of 16-bit elements.
  flops8PerSecond: number; // The same of 8-bit elements.
  measuredBy: DeviceReport | null; // Null: derived from stored floors.
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
  return { bytesPerSecond: memory, cachedBytesPerSecond: 0, flopsPerSecond: agree >= 2 ? peak : 0, flops8PerSecond: 0, measuredBy: null };
}

/** What a worker measured on the fastest device of that model, or else what the stored floors tell. */
export function ceilingsFor(reports: DeviceReport[], model: string, cases: VariantCase[]): Ceilings {
  let best: DeviceReport | null = null;
  for (const report of reports) {
    if (report.model !== model || !report.ceilings) continue;
    if (!best?.ceilings || report.ceilings.bytes_per_s > best.ceilings.bytes_per_s) best = report;
  }
  if (!best?.ceilings) return ceilingsOf(cases);
  return {
    bytesPerSecond: best.ceilings.bytes_per_s,
    cachedBytesPerSecond: best.ceilings.cached_bytes_per_s,
    flopsPerSecond: best.ceilings.flops_per_s,
    flops8PerSecond: best.ceilings.flops8_per_s,
    measuredBy: best,
  };
}

export interface CeilingLine {
  name: string;
  kind: "memory" | "flops";
  rate: number;
  main: boolean; // The others are drawn thin: they hold for some kernels alone.
}

/** The lines that a plot draws, as far as they are known. */
export function ceilingLines(ceilings: Ceilings): CeilingLine[] {
  const lines: CeilingLine[] = [
    { name: "memory", kind: "memory", rate: ceilings.bytesPerSecond, main: true },
    { name: "caches", kind: "memory", rate: ceilings.cachedBytesPerSecond, main: false },
    { name: "16-bit matrix", kind: "flops", rate: ceilings.flopsPerSecond, main: true },
    { name: "8-bit matrix", kind: "flops", rate: ceilings.flops8PerSecond, main: false },
  ];
  return lines.filter((line) => line.rate > 0);
}
