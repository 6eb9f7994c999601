import { diffLines } from "diff";
import { describe, expect, it } from "vitest";
import type { AgentCall, DeviceReport, Job, VariantCase } from "../src/api/types";
import { withQuery } from "../src/api/client";
import { highlightLines } from "../src/code/highlighted";
import { burns } from "../src/lib/budget";
import { latencyRatios } from "../src/lib/compare";
import { roundsOf, turnsOf } from "../src/lib/conversation";
import { aaRate, ceilingsText, healthText } from "../src/lib/devices";
import { factsLine, flatFacts } from "../src/lib/facts";
import { hotMedians } from "../src/lib/hot";
import { ceilingLines, ceilingsFor, ceilingsOf, place } from "../src/lib/roofline";
import { toolResults } from "../src/lib/sanitizers";
import { counts, gaps, sideBySide } from "../src/lib/sidebyside";
import { readParameters, writeParameters } from "../src/lib/url";

function timed(more: Partial<VariantCase>): VariantCase {
  return {
    variant_id: "v1",
    task: "t",
    task_digest: "d",
    target: "cpu",
    device_model: "m",
    status: "accepted",
    case: "timed/0",
    baseline_ns: 200,
    variant_ns: 100,
    ratio: 2,
    ratio_low: 1.9,
    ratio_high: 2.1,
    bytes_per_s: 0,
    flops_per_s: 0,
    floor_ns: 0,
    roofline_fraction: 0,
    ...more,
  };
}

describe("tools of compute-sanitizer", () => {
  it("are read from what they said", () => {
    expect(toolResults({ memcheck: "passed", racecheck: "failed: Race: of two writes", initcheck: "not_run: no summary", other: "odd" })).toEqual([
      { tool: "memcheck", result: "passed", note: "" },
      { tool: "racecheck", result: "failed", note: "Race: of two writes" },
      { tool: "initcheck", result: "not run", note: "no summary" },
      { tool: "other", result: "not known", note: "odd" },
    ]);
    expect(toolResults(undefined)).toEqual([]);
  });
});

describe("side by side", () => {
  const rows = (a: string, b: string) => sideBySide(diffLines(a, b));
  it("pairs replaced lines and numbers both sides", () => {
    const out = rows("a\nb\nc\nd\n", "a\nB\nBB\nd\n");
    expect(out.map((row) => [row.left?.text, row.right?.text])).toEqual([
      ["a", "a"],
      ["b", "B"],
      ["c", "BB"],
      ["d", "d"],
    ]);
    expect(out[3]).toMatchObject({ left: { number: 4 }, right: { number: 4 }, changed: false });
    expect(counts(out)).toEqual({ added: 2, removed: 2 });
  });
  it("shows lines of one side alone", () => {
    expect(rows("a\n", "a\nb\n")[1]).toMatchObject({ left: null, right: { number: 2, text: "b" } });
    expect(rows("", "")).toEqual([]);
    expect(counts(rows("same\n", "same\n"))).toEqual({ added: 0, removed: 0 });
  });
  it("folds long equal runs around changes", () => {
    const long = Array.from({ length: 60 }, (_, i) => `line ${i}`);
    const changed = [...long];
    changed[30] = "other";
    const out = rows(`${long.join("\n")}\n`, `${changed.join("\n")}\n`);
    expect(gaps(out, 4)).toEqual([
      { at: 0, hidden: 26 },
      { at: 35, hidden: 25 },
    ]);
    expect(gaps(rows("a\nb\n", "a\nb\n"), 4)).toEqual([]);
  });
});

describe("highlighting", () => {
  it("keeps every character, whatever it is", () => {
    const hostile = '<script>alert(1)</script>\n"><img src=x onerror=alert(1)>\n/* open\ncomment';
    const text = highlightLines(hostile)
      .map((line) => line.map((piece) => piece.text).join(""))
      .join("\n");
    expect(text).toBe(hostile);
  });
  it("names tokens", () => {
    const pieces = highlightLines("int x = 1; // one")[0]!;
    expect(pieces.some((piece) => piece.className.includes("hljs-type"))).toBe(true);
    expect(pieces.some((piece) => piece.className.includes("hljs-comment"))).toBe(true);
  });
});

describe("burnt budgets", () => {
  const none = { candidates: 0, wall_ms: 0, device_ms: 0, tokens: 0, usd: 0 };
  const job = (more: Partial<Job>) => ({ budget: none, spent: none, state: "succeeded", started_ns: 0, ...more }) as Job;
  it("start with the most burnt", () => {
    const out = burns(job({ budget: { ...none, candidates: 100, wall_ms: 60_000 }, spent: { ...none, candidates: 20, wall_ms: 45_000 } }), 0);
    expect(out.map((one) => one.kind)).toEqual(["wall time", "candidates"]);
    expect(out[1]).toMatchObject({ label: "20 of 100", fraction: 0.2 });
  });
  it("tell what is spent without a limit, and let wall time run", () => {
    expect(burns(job({ spent: { ...none, tokens: 5 } }), 0)).toMatchObject([{ kind: "tokens", label: "5", fraction: NaN }]);
    const running = job({ state: "running", started_ns: 1e15, budget: { ...none, wall_ms: 100_000 }, spent: { ...none, wall_ms: 1_000 } });
    expect(burns(running, 1e9 + 50_000)[0]!.fraction).toBe(0.5);
    expect(burns(running, 1e9 + 500_000)[0]!.fraction).toBe(1);
    expect(burns(job({}), 0)).toEqual([]);
  });
});

describe("latency ratios", () => {
  it("compare the fastest variant per case, over cases that both targets have", () => {
    const left = [timed({ variant_ns: 100 }), timed({ variant_ns: 50, variant_id: "v2" }), timed({ case: "timed/1", variant_ns: 10 }), timed({ task: "u", task_digest: "e" })];
    const right = [timed({ target: "gpu", variant_ns: 25 }), timed({ target: "gpu", case: "timed/1", variant_ns: 20 })];
    const [only, ...rest] = latencyRatios(left, right);
    expect(rest).toEqual([]);
    expect(only).toMatchObject({ task: "t", cases: 2 });
    expect(only!.ratio).toBeCloseTo(1, 9);
    expect(only!.low).toBeCloseTo(0.5, 9);
    expect(only!.high).toBeCloseTo(2, 9);
    expect(latencyRatios(left, [])).toEqual([]);
    expect(latencyRatios([timed({ variant_ns: 0 })], right)).toEqual([]);
  });
});

describe("roofline", () => {
  it("finds the ceilings in the floors", () => {
    const memory = [0.5, 0.8].map((fraction) => timed({ bytes_per_s: 100e9 * fraction, flops_per_s: 10e9 * fraction, roofline_fraction: fraction }));
    expect(ceilingsOf(memory)).toMatchObject({ bytesPerSecond: 100e9, flopsPerSecond: 0, measuredBy: null });
    const both = [...memory, ...[0.25, 0.5].map((fraction) => timed({ bytes_per_s: 1e9 * fraction, flops_per_s: 500e9 * fraction, roofline_fraction: fraction }))];
    expect(ceilingsOf(both)).toMatchObject({ bytesPerSecond: 100e9, flopsPerSecond: 500e9 });
    expect(ceilingsOf([])).toMatchObject({ bytesPerSecond: 0, flopsPerSecond: 0 });
  });
  it("prefers what a worker measured on that model", () => {
    const report = (model: string, bytes: number): DeviceReport => ({
      id: "cuda:0",
      model,
      target: "sm_90a",
      driver: "",
      uuid: "",
      partition: "",
      host: `h${bytes}`,
      health: "ok",
      reported_ns: 1,
      aa: null,
      ceilings: { bytes_per_s: bytes, cached_bytes_per_s: 9, flops_per_s: 5, flops8_per_s: 0 },
    });
    const reports = [report("m", 3), report("m", 4), report("other", 7), { ...report("m", 9), ceilings: null }];
    const found = ceilingsFor(reports, "m", []);
    expect(found).toMatchObject({ bytesPerSecond: 4, cachedBytesPerSecond: 9, flopsPerSecond: 5, measuredBy: { host: "h4" } });
    expect(ceilingLines(found).map((line) => [line.name, line.main])).toEqual([
      ["memory", true],
      ["caches", false],
      ["16-bit matrix", true],
    ]);
    const floors = [0.5, 0.8].map((fraction) => timed({ bytes_per_s: 100e9 * fraction, roofline_fraction: fraction }));
    expect(ceilingsFor(reports, "unknown", floors)).toMatchObject({ bytesPerSecond: 100e9, measuredBy: null });
  });
  it("places what has both bytes and flops", () => {
    const { points, unplaced } = place([timed({ bytes_per_s: 2, flops_per_s: 8 }), timed({ bytes_per_s: 2 })]);
    expect(points).toMatchObject([{ intensity: 4, flops: 8 }]);
    expect(unplaced).toBe(1);
  });
});

describe("facts", () => {
  const builds = [{ facts: { kernels: [{ name: "k", registers: 32, shared_bytes: 4096, vgpr_spills: 0, occupancy: { waves: 12, max_waves: 16 } }] } }];
  it("fit a line", () => {
    expect(factsLine(builds)).toBe("32 regs, 4096 B shared, 75 % occupancy");
    expect(factsLine([{ facts: {} }])).toBe("");
    expect(factsLine(undefined)).toBe("");
  });
  it("are flattened for comparison", () => {
    expect(flatFacts({ name: "k", registers: 3, instructions: { add: 2 }, list: [1] })).toEqual([
      { name: "registers", value: "3" },
      { name: "instructions: add", value: "2" },
      { name: "list", value: "[1]" },
    ]);
  });
});

describe("conversations", () => {
  it("are read in the loop's form", () => {
    const turns = turnsOf({
      round: 1,
      plan: { request: { system: "rules", messages: [{ role: "user", text: "plan it" }] }, reply: { text: "tile it", calls: [] } },
      write: { messages: [{ role: "user", text: "", results: [{ text: "compiled" }] }, { role: "assistant", text: "", calls: [{ name: "submit", input: { a: 1 } }] }] },
    });
    expect(turns.map((turn) => [turn.part, turn.role, turn.text])).toEqual([
      ["plan", "system", "rules"],
      ["plan", "user", "plan it"],
      ["plan", "assistant", "tile it"],
      ["write", "user", "compiled"],
      ["write", "assistant", ""],
    ]);
    expect(turns[4]!.calls).toEqual([{ name: "submit", input: '{\n  "a": 1\n}' }]);
  });
  it("survive anything else", () => {
    for (const odd of [null, 1, "x", [], {}, [1, null], { plan: 3 }, { messages: "no" }]) expect(turnsOf(odd)).toEqual([]);
    expect(turnsOf([{ role: "user", content: "hi" }])).toMatchObject([{ role: "user", text: "hi" }]);
  });
});

describe("rounds", () => {
  it("begin with a plan", () => {
    const call = (sequence: number, kind: string, tokens = 0) => ({ sequence, kind, tokens, usd: 0.5, device_ms: 2 }) as AgentCall;
    const rounds = roundsOf([call(1, "model/plan", 10), call(2, "model/plan", 5), call(3, "model/write"), call(4, "try/compile"), call(5, "model/plan"), call(6, "model/write", 7)]);
    expect(rounds.map((round) => [round.number, round.calls.map((one) => one.sequence), round.tokens])).toEqual([
      [1, [1, 2, 3, 4], 15],
      [2, [5, 6], 7],
    ]);
    expect(rounds[0]).toMatchObject({ usd: 2, deviceMs: 8 });
    expect(roundsOf([call(1, "model/write"), call(2, "model/plan")]).length).toBe(2);
    expect(roundsOf([])).toEqual([]);
  });
});

describe("devices", () => {
  it("tell what was measured", () => {
    expect(ceilingsText({ bytes_per_s: 4.244e12, cached_bytes_per_s: 0, flops_per_s: 9.6e14, flops8_per_s: 0 })).toBe("4.24 TB/s memory, 960 Tflop/s 16-bit matrix");
    expect(ceilingsText({ bytes_per_s: 0, cached_bytes_per_s: 0, flops_per_s: 0, flops8_per_s: 0 })).toBe("none");
    const aa = { candidates: 40, confirmations: 3, false_wins: 1, ratio_low: 0.99, ratio_high: 1.012, spread_median: 0.0012, spread_p95: 0.01, measured_ns: 1 };
    expect(aaRate(aa)).toBe("1 false win in 40 (2.5 %), 95 % of ratios 0.990–1.012×, median spread 0.12 %");
    expect(aaRate({ ...aa, candidates: 0 })).toBe("nothing was compared");
    for (const health of ["ok", "suspect", "quarantined", "odd"]) expect(healthText(health)).not.toBe("");
  });
});

describe("addresses", () => {
  const defaults = { q: "", status: "accepted" };
  it("hold what differs from the usual", () => {
    expect(readParameters("q=a%26b&status=", defaults)).toEqual({ q: "a&b", status: "" });
    expect(readParameters("", defaults)).toEqual(defaults);
    expect(writeParameters("other=1&q=x", defaults, { q: "", status: "demoted" })).toBe("other=1&status=demoted");
    expect(writeParameters("", defaults, { q: "a&b", status: "accepted" })).toBe("q=a%26b");
  });
  it("encode what they are given", () => {
    expect(withQuery("/api", { q: "a b&c=d", limit: 10, empty: "", none: undefined })).toBe("/api?q=a+b%26c%3Dd&limit=10");
    expect(withQuery("/api", {})).toBe("/api");
  });
});

describe("hot medians", () => {
  it("are read by case, and whatever else a worker sends is left out", () => {
    const environment = {
      host: "x",
      hot: {
        "timed/0": { baseline_ns: 100, candidate_ns: 50, ratio: 2 },
        "timed/1": { baseline_ns: "100", candidate_ns: 50, ratio: 2 },
        "timed/2": null,
      },
    };
    expect([...hotMedians(environment)]).toEqual([["timed/0", { baseline_ns: 100, candidate_ns: 50, ratio: 2 }]]);
    expect(hotMedians({ hot: 7 }).size).toBe(0);
    expect(hotMedians(undefined).size).toBe(0);
  });
});
