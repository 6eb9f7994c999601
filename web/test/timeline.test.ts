import { describe, expect, it } from "vitest";
import { bestSoFar, kindOf, lineage, mergePoints, parsePage, resumeAfter, type Point } from "../src/lib/timeline";

function point(ordinal: number, more: Partial<Point> = {}): Point {
  return {
    ordinal,
    parent: 0,
    digest: `d${ordinal}`,
    verdict: "NO_WIN",
    reason: "",
    stage: "search",
    technique: "",
    ratio: 1,
    low: 0.9,
    high: 1.1,
    createdMs: ordinal,
    judgedMs: ordinal,
    ...more,
  };
}

describe("parsePage", () => {
  const columns = ["ratio", "ordinal", "parent_ordinal", "digest", "verdict", "reason_code", "stage", "technique", "ratio_low", "ratio_high", "created_ms", "judged_ms"];
  it("goes by the columns' names", () => {
    const [one] = parsePage({ columns, rows: [[1.5, 7, 3, "abc", "WIN", "", "search", "t", 1.4, 1.6, 10, 20]], next_cursor: "" });
    expect(one).toMatchObject({ ordinal: 7, parent: 3, digest: "abc", verdict: "WIN", ratio: 1.5, low: 1.4, high: 1.6, judgedMs: 20 });
  });
  it("refuses what it does not know", () => {
    expect(() => parsePage({ columns: columns.slice(1), rows: [], next_cursor: "" })).toThrow("ratio");
  });
});

describe("mergePoints", () => {
  it("appends, and replaces what was read before it was judged", () => {
    const before = [point(1), point(2, { verdict: "" }), point(3, { verdict: "" })];
    expect(resumeAfter(before)).toBe(1);
    const after = mergePoints(before, [point(2, { verdict: "WIN" }), point(3, { verdict: "" }), point(4)]);
    expect(after.map((one) => one.verdict)).toEqual(["NO_WIN", "WIN", "", "NO_WIN"]);
    expect(resumeAfter(after)).toBe(2);
    expect(mergePoints(after, [point(5)]).length).toBe(5);
    expect(mergePoints(after, [])).toBe(after);
    expect(resumeAfter([])).toBe(0);
  });
  it("takes 100,000 points", () => {
    let points: Point[] = [];
    for (let page = 0; page < 20; page += 1) {
      points = mergePoints(points, Array.from({ length: 5000 }, (_, i) => point(page * 5000 + i + 1)));
    }
    expect(points.length).toBe(100_000);
    expect(bestSoFar(points).length).toBe(100_000);
  });
});

describe("bestSoFar", () => {
  it("counts confirmed wins alone, in order of judgement", () => {
    const points = [
      point(1, { ratio: 9 }),
      point(2, { verdict: "WIN", ratio: 2, judgedMs: 50 }),
      point(3, { verdict: "WIN", ratio: 1.5, judgedMs: 10 }),
      point(4, { judgedMs: 60 }),
      point(5, { verdict: "WIN", ratio: 1.9, judgedMs: 70 }), // Faster side by side, in a slower hour.
    ];
    expect(bestSoFar(points)).toEqual([0, 2, 1.5, 2, 1.9]);
  });
});

describe("kindOf", () => {
  it("tells what a plot shows", () => {
    expect(kindOf(point(1, { verdict: "" }))).toBe("open");
    expect(kindOf(point(1, { verdict: "WIN" }))).toBe("win");
    expect(kindOf(point(1))).toBe("measured");
    expect(kindOf(point(1, { verdict: "COMPILE_ERROR", ratio: 0 }))).toBe("failed");
  });
});

describe("lineage", () => {
  it("keeps winners with their ancestors when there is no room for all", () => {
    const points = [point(1), point(2, { parent: 1 }), point(3), point(4, { parent: 2, verdict: "WIN", ratio: 2 }), point(5), point(6)];
    const { roots, shown, left } = lineage(points, 3);
    expect(shown).toBe(3);
    expect(left).toBe(3);
    expect(roots.map((root) => root.ordinal)).toEqual([1]);
    expect(roots[0]!.children[0]!.children[0]!.ordinal).toBe(4);
  });
  it("is not led in circles", () => {
    const { roots } = lineage([point(1, { parent: 2 }), point(2, { parent: 1 }), point(3, { parent: 3 })], 10);
    const seen: number[] = [];
    const walk = (nodes: typeof roots) =>
      nodes.forEach((node) => {
        seen.push(node.ordinal);
        walk(node.children);
      });
    walk(roots);
    expect(seen.sort()).toEqual([1, 2, 3]);
  });
});
