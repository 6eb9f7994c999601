import type { Budget, Job } from "../api/types";
import { count, span } from "./format";

export interface Burn {
  kind: string;
  label: string; // "12 of 100 candidates"
  fraction: number; // Of the limit; NaN: no limit.
}

const kinds: { key: keyof Budget; name: string; show: (value: number) => string }[] = [
  { key: "candidates", name: "candidates", show: count },
  { key: "wall_ms", name: "wall time", show: span },
  { key: "device_ms", name: "device time", show: span },
  { key: "tokens", name: "tokens", show: count },
  { key: "usd", name: "USD", show: (value) => value.toFixed(2) },
];

/** What was spent of each kind of budget that is limited or used; the most burnt first. */
export function burns(job: Job, nowMs: number): Burn[] {
  const out: Burn[] = [];
  for (const { key, name, show } of kinds) {
    const limit = job.budget[key];
    let spent = job.spent[key];
    if (key === "wall_ms" && job.state === "running" && job.started_ns > 0) {
      // Stored now and then; between, time goes on. A job that was resumed has older time in it.
      spent = Math.max(spent, Math.min(nowMs - job.started_ns / 1e6, limit > 0 ? limit : Infinity));
    }
    if (limit <= 0 && spent <= 0) continue;
    out.push({
      kind: name,
      label: limit > 0 ? `${show(spent)} of ${show(limit)}` : show(spent),
      fraction: limit > 0 ? Math.min(1, spent / limit) : NaN,
    });
  }
  return out.sort((a, b) => (Number.isNaN(b.fraction) ? -1 : b.fraction) - (Number.isNaN(a.fraction) ? -1 : a.fraction));
}
