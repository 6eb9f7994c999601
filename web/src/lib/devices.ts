// What workers report of their devices, in words.

import type { AaFigures, DeviceCeilings } from "../api/types";
import { bytesPerSecond, count, flopsPerSecond, percent } from "./format";

/** "4.24 TB/s memory, 960 Tflop/s 16-bit matrix"; what was not measured is left out. */
export function ceilingsText(ceilings: DeviceCeilings): string {
  const parts = [
    ceilings.bytes_per_s > 0 ? `${bytesPerSecond(ceilings.bytes_per_s)} memory` : "",
    ceilings.cached_bytes_per_s > 0 ? `${bytesPerSecond(ceilings.cached_bytes_per_s)} caches` : "",
    ceilings.flops_per_s > 0 ? `${flopsPerSecond(ceilings.flops_per_s)} 16-bit matrix` : "",
    ceilings.flops8_per_s > 0 ? `${flopsPerSecond(ceilings.flops8_per_s)} 8-bit matrix` : "",
  ];
  return parts.filter((part) => part !== "").join(", ") || "none";
}

/** How often a kernel was called faster than itself. */
export function aaRate(aa: AaFigures): string {
  if (!(aa.candidates > 0)) return "nothing was compared";
  return (
    `${count(aa.false_wins)} false ${aa.false_wins === 1 ? "win" : "wins"} in ${count(aa.candidates)} (${percent(aa.false_wins / aa.candidates, 1)}), ` +
    `95 % of ratios ${aa.ratio_low.toFixed(3)}–${aa.ratio_high.toFixed(3)}×, median spread ${percent(aa.spread_median, 2)}`
  );
}

export function healthText(health: string): string {
  if (health === "ok") return "Nothing is known to be wrong with it.";
  if (health === "suspect") return "A kernel crashed or hung on it; it must pass its health check before it is used again.";
  if (health === "quarantined") return "It failed its health check too often and takes no work. Check the device, then restart its worker.";
  return "Its health is not known.";
}
