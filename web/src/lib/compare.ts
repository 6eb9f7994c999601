// The same cases on two targets, by family of kernels.

import type { VariantCase } from "../api/types";

export interface FamilyRatio {
  task: string;
  cases: number;
  ratio: number; // Geometric mean of time on the first target over time on the second.
  low: number; // Smallest and largest case.
  high: number;
  left: string; // Variants
  right: string;
}

/** Of each task the fastest accepted variant per case and target; only cases that both have. */
export function latencyRatios(left: VariantCase[], right: VariantCase[]): FamilyRatio[] {
  const best = (cases: VariantCase[]) => {
    const found = new Map<string, VariantCase>();
    for (const one of cases) {
      if (!(one.variant_ns > 0)) continue;
      const key = `${one.task_digest} ${one.case}`;
      const known = found.get(key);
      if (!known || one.variant_ns < known.variant_ns) found.set(key, one);
    }
    return found;
  };
  const onRight = best(right);
  const families = new Map<string, { logs: number[]; left: string; right: string }>();
  for (const [key, one] of best(left)) {
    const other = onRight.get(key);
    if (!other) continue;
    const family = families.get(one.task) ?? { logs: [], left: one.variant_id, right: other.variant_id };
    family.logs.push(Math.log(one.variant_ns / other.variant_ns));
    families.set(one.task, family);
  }
  return [...families]
    .map(([task, family]) => ({
      task,
      cases: family.logs.length,
      ratio: Math.exp(family.logs.reduce((sum, value) => sum + value, 0) / family.logs.length),
      low: Math.exp(Math.min(...family.logs)),
      high: Math.exp(Math.max(...family.logs)),
      left: family.left,
      right: family.right,
    }))
    .sort((a, b) => a.task.localeCompare(b.task));
}
