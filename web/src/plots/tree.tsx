import { hierarchy, tree } from "d3-hierarchy";
import { useMemo } from "react";
import { Link } from "wouter";
import { ratio, words } from "../lib/format";
import { lineage, type Lineage, type Point } from "../lib/timeline";
import { NotRecorded } from "../ui/states";

const mostNodes = 400;
const rowHeight = 20;
const columnWidth = 120;

/** Candidates by parent. Parents are those that proposers named. */
export default function Tree({ points, jobId }: { points: Point[]; jobId: string }) {
  const forest = useMemo(() => lineage(points, mostNodes), [points]);
  const drawn = useMemo(() => {
    const root = hierarchy<{ node: Lineage | null; children: Lineage[] }>(
      { node: null, children: forest.roots },
      (datum) => datum.children.map((child) => ({ node: child, children: child.children })) as never,
    );
    tree<typeof root.data>().nodeSize([rowHeight, columnWidth])(root as never);
    return root;
  }, [forest]);
  const related = points.filter((point) => point.parent > 0).length;
  if (points.length === 0) return <NotRecorded>No candidate yet.</NotRecorded>;
  if (related === 0) {
    return <NotRecorded>No candidate of this job names a parent: its proposer draws each from the whole space.</NotRecorded>;
  }
  const nodes = drawn.descendants().filter((node) => node.data.node !== null);
  const top = Math.min(...nodes.map((node) => node.x ?? 0));
  const bottom = Math.max(...nodes.map((node) => node.x ?? 0));
  const width = Math.max(...nodes.map((node) => node.y ?? 0)) + 160;
  const height = bottom - top + 2 * rowHeight;
  const at = (node: { x?: number | undefined; y?: number | undefined }) => [(node.y ?? 0) - columnWidth + 14, (node.x ?? 0) - top + rowHeight] as const;
  return (
    <>
      <p className="muted">
        {forest.shown} of {points.length} candidates: what won with its ancestors first, then the fastest.
      </p>
      <div className="tree" tabIndex={0} role="region" aria-label="Tree of parents">
        <svg width={width} height={height}>
          {nodes.map((node) => {
            if (!node.parent?.data.node) return null;
            const [x0, y0] = at(node.parent);
            const [x1, y1] = at(node);
            return <path key={`l${node.data.node!.ordinal}`} d={`M${x0},${y0}C${(x0 + x1) / 2},${y0} ${(x0 + x1) / 2},${y1} ${x1},${y1}`} />;
          })}
          {nodes.map((node) => {
            const { point } = node.data.node!;
            const [x, y] = at(node);
            const fill = point.verdict === "WIN" ? "var(--win)" : point.ratio > 0 ? "var(--mark-a)" : "var(--bad)";
            const name = `#${point.ordinal} ${words(point.verdict || "under way")} ${point.ratio > 0 ? ratio(point.ratio) : ""}`;
            return (
              <Link key={point.ordinal} href={`/jobs/${jobId}/candidates/${point.digest}`} aria-label={name}>
                <circle cx={x} cy={y} r={point.verdict === "WIN" ? 5.5 : 4} fill={fill} />
                <text x={x + 9} y={y + 4}>
                  #{point.ordinal} {point.ratio > 0 ? ratio(point.ratio) : words(point.verdict)}
                </text>
              </Link>
            );
          })}
        </svg>
      </div>
    </>
  );
}
