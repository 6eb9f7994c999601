// Numbers as people read them. Every number has its unit; what is not known is a dash.

export const dash = "–";

const times = [
  [1, "ns"],
  [1e3, "µs"],
  [1e6, "ms"],
  [1e9, "s"],
] as const;

function digits(value: number, significant: number): string {
  if (value === 0) return "0";
  const decimals = Math.max(0, significant - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(decimals, 12));
}

function scaled(value: number, steps: readonly (readonly [number, string])[], significant = 3): string {
  let [size, unit] = steps[0]!;
  for (const [next, name] of steps) {
    if (Math.abs(value) >= next) [size, unit] = [next, name];
  }
  return `${digits(value / size, significant)} ${unit}`;
}

/** "12.3 µs"; up to seconds, for what a kernel takes. */
export function duration(ns: number): string {
  return Number.isFinite(ns) && ns > 0 ? scaled(ns, times) : dash;
}

/** "1 h 05 min", "42 s"; for what a job takes. */
export function span(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return dash;
  const seconds = Math.round(ms / 1000);
  if (ms > 0 && seconds === 0) return `${Math.round(ms)} ms`;
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** "1.84×" */
export function ratio(value: number): string {
  return Number.isFinite(value) && value > 0 ? `${digits(value, value >= 100 ? 4 : 3)}×` : dash;
}

/** "1.81–1.87×" */
export function interval(low: number, high: number): string {
  if (!(low > 0) || !(high > 0)) return dash;
  return `${digits(low, 3)}–${digits(high, 3)}×`;
}

/** A fraction as "82 %". */
export function percent(fraction: number, decimals = 0): string {
  return Number.isFinite(fraction) ? `${(fraction * 100).toFixed(decimals)} %` : dash;
}

export function bytesPerSecond(value: number): string {
  if (!(value > 0)) return dash;
  return scaled(value, [
    [1, "B/s"],
    [1e3, "kB/s"],
    [1e6, "MB/s"],
    [1e9, "GB/s"],
    [1e12, "TB/s"],
  ]);
}

export function flopsPerSecond(value: number): string {
  if (!(value > 0)) return dash;
  return scaled(value, [
    [1, "flop/s"],
    [1e3, "kflop/s"],
    [1e6, "Mflop/s"],
    [1e9, "Gflop/s"],
    [1e12, "Tflop/s"],
    [1e15, "Pflop/s"],
  ]);
}

export function count(value: number): string {
  return Number.isFinite(value) ? value.toLocaleString("en-US") : dash;
}

export function figure(value: number): string {
  if (!Number.isFinite(value)) return dash;
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-3 ? value.toExponential(2) : digits(value, 3);
}

/** "3 min ago"; `now` in milliseconds. */
export function age(ns: number, nowMs: number): string {
  if (!(ns > 0)) return dash;
  const seconds = Math.max(0, Math.round((nowMs - ns / 1e6) / 1000));
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** Local time, "2026-03-01 14:05:09". */
export function absolute(ns: number): string {
  if (!(ns > 0)) return dash;
  const time = new Date(ns / 1e6);
  const two = (value: number) => String(value).padStart(2, "0");
  return (
    `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ` +
    `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`
  );
}

/** "17 KiB"; for what memory holds. */
export function bytes(value: number): string {
  if (!Number.isFinite(value) || value < 0) return dash;
  if (value < 1024) return `${value} B`;
  return scaled(value, [
    [2 ** 10, "KiB"],
    [2 ** 20, "MiB"],
    [2 ** 30, "GiB"],
    [2 ** 40, "TiB"],
  ]);
}

/** Labels of a time axis at `seconds`: "14:05", with the date below the first and where the day changes. */
export function axisTimes(seconds: number[]): string[] {
  const short = seconds.every((one) => one % 60 === 0) ? 5 : 8; // With seconds where they tell labels apart.
  let day = "";
  return seconds.map((one) => {
    const [date = "", time = ""] = absolute(one * 1e9).split(" ");
    const label = date === day ? time.slice(0, short) : `${time.slice(0, short)}\n${date}`;
    day = date;
    return label;
  });
}

/** Tunable values as "BLOCK=256 ROWS=4". */
export function values(object: Record<string, unknown> | null | undefined): string {
  const entries = Object.entries(object ?? {});
  if (entries.length === 0) return dash;
  return entries.map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : String(value)}`).join(" ");
}

export function shortId(id: string): string {
  return id.length > 14 ? id.slice(0, 12) : id;
}

/** "NO_WIN" as "no win". */
export function words(code: string): string {
  return code.toLowerCase().replaceAll("_", " ");
}
