// Medians with everything in the cache, as a confirmation's environment holds them by case.

export interface HotMedians {
  baseline_ns: number;
  candidate_ns: number;
  ratio: number;
}

export function hotMedians(environment: Record<string, unknown> | null | undefined): Map<string, HotMedians> {
  const out = new Map<string, HotMedians>();
  const hot = environment?.hot;
  if (typeof hot !== "object" || hot === null) return out;
  for (const [label, medians] of Object.entries(hot as Record<string, unknown>)) {
    if (typeof medians !== "object" || medians === null) continue;
    const { baseline_ns, candidate_ns, ratio } = medians as Record<string, unknown>;
    if (typeof baseline_ns === "number" && typeof candidate_ns === "number" && typeof ratio === "number") {
      out.set(label, { baseline_ns, candidate_ns, ratio });
    }
  }
  return out;
}
