// A job's candidates as columns: 100,000 of them fit in a few megabytes and are filtered in
// milliseconds.

export interface TimelinePage {
  columns: string[];
  rows: (string | number)[][];
  next_cursor: string;
}

export interface Point {
  ordinal: number;
  parent: number;
  digest: string;
  verdict: string;
  reason: string;
  stage: string;
  technique: string;
  ratio: number;
  low: number;
  high: number;
  createdMs: number;
  judgedMs: number;
}

const expected = [
  "ordinal",
  "parent_ordinal",
  "digest",
  "verdict",
  "reason_code",
  "stage",
  "technique",
  "ratio",
  "ratio_low",
  "ratio_high",
  "created_ms",
  "judged_ms",
];

/** The points of a page, whatever the order of its columns. */
export function parsePage(page: TimelinePage): Point[] {
  const at = new Map(page.columns.map((name, index) => [name, index]));
  for (const name of expected) {
    if (!at.has(name)) throw new Error(`The timeline has no column ${name}.`);
  }
  const text = (row: (string | number)[], name: string) => String(row[at.get(name)!] ?? "");
  const number = (row: (string | number)[], name: string) => Number(row[at.get(name)!] ?? 0);
  return page.rows.map((row) => ({
    ordinal: number(row, "ordinal"),
    parent: number(row, "parent_ordinal"),
    digest: text(row, "digest"),
    verdict: text(row, "verdict"),
    reason: text(row, "reason_code"),
    stage: text(row, "stage"),
    technique: text(row, "technique"),
    ratio: number(row, "ratio"),
    low: number(row, "ratio_low"),
    high: number(row, "ratio_high"),
    createdMs: number(row, "created_ms"),
    judgedMs: number(row, "judged_ms"),
  }));
}

/** `points` with `page` put in: by ordinal, newer data for the same ordinal wins. */
export function mergePoints(points: Point[], page: Point[]): Point[] {
  const first = page[0];
  if (!first) return points;
  const last = points[points.length - 1];
  if (!last || first.ordinal > last.ordinal) return points.concat(page);
  const byOrdinal = new Map(points.map((point) => [point.ordinal, point]));
  for (const point of page) byOrdinal.set(point.ordinal, point);
  return [...byOrdinal.values()].sort((a, b) => a.ordinal - b.ordinal);
}

/** From where a live timeline is read again: the first candidate without a verdict. */
export function resumeAfter(points: Point[]): number {
  for (const point of points) {
    if (point.verdict === "") return point.ordinal - 1;
  }
  return points[points.length - 1]?.ordinal ?? 0;
}

/** Verdicts whose time was measured, and what a plot shows of them. */
export function kindOf(point: Point): "win" | "measured" | "failed" | "open" {
  if (point.verdict === "") return "open";
  if (point.verdict === "WIN") return "win";
  return point.ratio > 0 ? "measured" : "failed";
}

/**
 * The speed-up of the best so far at each point, in order of judgement; 0 before the first. What wins beat the
 * best before it side by side, so the last that won is the best, whatever its own figure.
 */
export function bestSoFar(points: Point[]): number[] {
  const order = points.map((_, index) => index).sort((a, b) => points[a]!.judgedMs - points[b]!.judgedMs);
  const best = new Array<number>(points.length).fill(0);
  let sofar = 0;
  for (const index of order) {
    const point = points[index]!;
    if (point.verdict === "WIN") sofar = point.ratio;
    best[index] = sofar;
  }
  return best;
}

export interface Lineage {
  ordinal: number;
  children: Lineage[];
  point: Point;
}

/** Candidates as a forest of parents; at most `most` of them: wins with their ancestors first. */
export function lineage(points: Point[], most: number): { roots: Lineage[]; shown: number; left: number } {
  const byOrdinal = new Map(points.map((point) => [point.ordinal, point]));
  const chosen = new Set<number>();
  const choose = (point: Point) => {
    const chain: number[] = [];
    let at: Point | undefined = point;
    while (at && !chosen.has(at.ordinal) && !chain.includes(at.ordinal)) {
      chain.push(at.ordinal);
      at = byOrdinal.get(at.parent);
    }
    if (chosen.size + chain.length <= most) for (const ordinal of chain) chosen.add(ordinal);
  };
  for (const point of points) if (point.verdict === "WIN") choose(point);
  const measured = points.filter((point) => point.ratio > 0).sort((a, b) => b.ratio - a.ratio);
  for (const point of measured) if (chosen.size < most) choose(point);
  for (const point of points) if (chosen.size < most) choose(point);
  const nodes = new Map<number, Lineage>();
  for (const ordinal of [...chosen].sort((a, b) => a - b)) {
    nodes.set(ordinal, { ordinal, children: [], point: byOrdinal.get(ordinal)! });
  }
  const roots: Lineage[] = [];
  for (const node of nodes.values()) {
    const parent = node.point.parent < node.ordinal ? nodes.get(node.point.parent) : undefined;
    if (parent) parent.children.push(node);
    else roots.push(node);
  }
  return { roots, shown: nodes.size, left: points.length - nodes.size };
}
