// The few facts of a code object that a list has room for.

import type { Build, KernelFacts } from "../api/types";

export interface FactLine {
  name: string;
  value: string;
}

const shown: [string, string][] = [
  ["registers", "regs"],
  ["arch_vgprs", "VGPR"],
  ["accumulators", "AGPR"],
  ["sgprs", "SGPR"],
  ["vgpr_spills", "VGPR spills"],
  ["sgpr_spills", "SGPR spills"],
  ["local_bytes", "B local"],
  ["shared_bytes", "B shared"],
];

export function kernelsOf(builds: Build[] | null | undefined): KernelFacts[] {
  const out: KernelFacts[] = [];
  for (const build of builds ?? []) {
    if (Array.isArray(build.facts?.kernels)) out.push(...build.facts.kernels);
  }
  return out;
}

/** "32 regs, 4096 B shared, 75 % occupancy"; empty where nothing is recorded. */
export function factsLine(builds: Build[] | null | undefined): string {
  const kernel = kernelsOf(builds)[0];
  if (!kernel) return "";
  const parts: string[] = [];
  for (const [key, unit] of shown) {
    const value = kernel[key];
    if (typeof value === "number" && value > 0) parts.push(`${value} ${unit}`);
  }
  const waves = kernel.occupancy?.["waves"];
  const most = kernel.occupancy?.["max_waves"];
  if (typeof waves === "number" && typeof most === "number" && most > 0) {
    parts.push(`${Math.round((waves / most) * 100)} % occupancy`);
  }
  return parts.join(", ");
}

/** All facts as names and values, one level deep, for comparing two kernels. */
export function flatFacts(kernel: Record<string, unknown> | undefined): FactLine[] {
  const out: FactLine[] = [];
  for (const [name, value] of Object.entries(kernel ?? {})) {
    if (value === null || name === "name") continue;
    if (typeof value === "object" && !Array.isArray(value)) {
      for (const [inner, part] of Object.entries(value as Record<string, unknown>)) {
        out.push({ name: `${name}: ${inner}`, value: typeof part === "object" ? JSON.stringify(part) : String(part) });
      }
    } else {
      out.push({ name, value: typeof value === "object" ? JSON.stringify(value) : String(value) });
    }
  }
  return out;
}
