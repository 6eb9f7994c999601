import { useMemo, useRef, useState } from "react";
import type uPlot from "uplot";
import { bytesPerSecond, duration, flopsPerSecond, percent, ratio } from "../lib/format";
import { ceilingLines, type Ceilings, type RooflinePoint } from "../lib/roofline";
import { Plot, axis, useColors, xAxis } from "./plot";

function superscript(value: number): string {
  const exponent = Math.round(Math.log10(value));
  return Math.abs(value / 10 ** exponent - 1) < 1e-6 ? (Math.abs(exponent) <= 2 ? String(value) : `1e${exponent}`) : "";
}

/** Arithmetic intensity against achieved rate, both logarithmic, under the ceilings. */
export function RooflinePlot({ points, ceilings, onChoose }: { points: RooflinePoint[]; ceilings: Ceilings; onChoose: (point: RooflinePoint) => void }) {
  const colors = useColors();
  const [hover, setHover] = useState<{ point: RooflinePoint; left: number; top: number } | null>(null);
  const sorted = useMemo(() => [...points].sort((a, b) => a.intensity - b.intensity), [points]);
  const data = useMemo<uPlot.AlignedData>(() => [sorted.map((p) => p.intensity), sorted.map((p) => p.flops)], [sorted]);
  const latest = useRef(sorted);
  latest.current = sorted;
  const chooser = useRef(onChoose);
  chooser.current = onChoose;
  const options = useMemo(() => {
    const lines = ceilingLines(ceilings);
    const xs = sorted.map((p) => p.intensity);
    const ys = sorted.map((p) => p.flops);
    // Wide enough for the ridge, where memory's line meets arithmetic's.
    const ridge = ceilings.bytesPerSecond > 0 ? ceilings.flopsPerSecond / ceilings.bytesPerSecond : 0;
    const x0 = Math.min(0.05, ...xs) / 2;
    const x1 = Math.max(16, ridge * 2, ...xs) * 2;
    const roof = (x: number) => Math.min(ceilings.bytesPerSecond * x || Infinity, ceilings.flopsPerSecond || Infinity);
    const flat = lines.filter((line) => line.kind === "flops").map((line) => line.rate);
    const y1 = Math.max(...ys, ...flat, Number.isFinite(roof(x1)) ? roof(x1) : 0) * 2;
    const y0 = Math.min(...ys, Number.isFinite(roof(x0)) ? roof(x0) : Infinity) / 2;
    return (width: number, height: number): uPlot.Options => ({
      width,
      height,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: false, distr: 3, range: () => [x0, x1] },
        y: { distr: 3, range: () => [y0, y1] },
      },
      axes: [
        xAxis(colors, { label: "arithmetic intensity, flop per byte", values: (_plot, splits) => splits.map(superscript) }),
        axis(colors, {
          label: "achieved rate",
          size: 84,
          values: (_plot, splits) => splits.map((value) => (superscript(value) === "" ? "" : flopsPerSecond(value))),
        }),
      ],
      series: [{}, { paths: () => null, points: { show: true, size: 7, space: 0, stroke: colors.markB, fill: colors.markB } }], // An outline would erase neighbours.
      hooks: {
        drawAxes: [
          (plot) => {
            const { ctx } = plot;
            ctx.save();
            ctx.beginPath();
            ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
            ctx.clip();
            ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
            ctx.fillStyle = colors.muted;
            ctx.textAlign = "left"; // The axes leave it otherwise.
            ctx.textBaseline = "alphabetic";
            const peak = Math.max(0, ...flat);
            const fastest = Math.max(0, ...lines.filter((line) => line.kind === "memory").map((line) => line.rate));
            for (const line of lines) {
              ctx.strokeStyle = line.main ? colors.accent : colors.muted;
              ctx.lineWidth = (line.main ? 2 : 1) * devicePixelRatio;
              ctx.setLineDash(line.main ? [] : [5 * devicePixelRatio, 4 * devicePixelRatio]);
              // Memory's lines end at the highest arithmetic one, arithmetic's begin at the fastest memory's.
              const top = line.kind === "memory" ? (line.main ? ceilings.flopsPerSecond : peak) || Infinity : line.rate;
              const from = line.kind === "memory" ? x0 : Math.max(x0, line.rate / ((line.main ? ceilings.bytesPerSecond : fastest) || Infinity));
              const to = line.kind === "memory" ? Math.min(x1, top / line.rate) : x1;
              if (!(to > from)) continue;
              const at = (x: number) => [plot.valToPos(x, "x", true), plot.valToPos(line.kind === "memory" ? line.rate * x : line.rate, "y", true)] as const;
              ctx.beginPath();
              ctx.moveTo(...at(from));
              ctx.lineTo(...at(to));
              ctx.stroke();
              const text = `${line.name} ${line.kind === "memory" ? bytesPerSecond(line.rate) : flopsPerSecond(line.rate)}`;
              ctx.save();
              if (line.kind === "memory") {
                // Along the line, a little above it.
                const [ax, ay] = at(Math.max(x0 * 1.3, y0 / line.rate));
                const [bx, by] = at(to);
                ctx.translate(ax, ay);
                ctx.rotate(Math.atan2(by - ay, bx - ax));
                ctx.fillText(text, 14 * devicePixelRatio, -5 * devicePixelRatio);
              } else {
                const [bx, by] = at(to);
                ctx.textAlign = "right";
                ctx.fillText(text, bx - 6 * devicePixelRatio, by - 5 * devicePixelRatio);
              }
              ctx.restore();
            }
            ctx.restore();
          },
        ],
        setCursor: [
          (plot) => {
            const near = nearest(plot, latest.current);
            setHover(near ? { point: near, left: (plot.cursor.left ?? 0) + plot.bbox.left / devicePixelRatio, top: plot.cursor.top ?? 0 } : null);
          },
        ],
        ready: [
          (plot) => {
            plot.over.addEventListener("click", () => {
              const near = nearest(plot, latest.current);
              if (near) chooser.current(near);
            });
          },
        ],
      },
    });
  }, [sorted, ceilings, colors]);
  return (
    <div className="plot">
      <Plot
        options={options}
        data={data}
        height={420}
        label={`${points.length} timed cases by arithmetic intensity and achieved rate; ceilings: ${ceilingLines(ceilings)
          .map((line) => `${line.name} ${line.kind === "memory" ? bytesPerSecond(line.rate) : flopsPerSecond(line.rate)}`)
          .join(", ")}. The table below holds them.`}
      />
      {hover && (
        <div className="tip" style={{ left: Math.max(0, Math.min(hover.left + 12, window.innerWidth - 300)), top: Math.max(0, hover.top - 8) }}>
          <b>{hover.point.source.task}</b> <span className="muted">{hover.point.source.case}</span>
          <div>
            {flopsPerSecond(hover.point.flops)}, {bytesPerSecond(hover.point.source.bytes_per_s)}, {duration(hover.point.source.variant_ns)}
          </div>
          <div className="muted">
            {hover.point.source.roofline_fraction > 0 ? `${percent(hover.point.source.roofline_fraction)} of the roofline, ` : ""}
            {ratio(hover.point.source.ratio)} over its baseline
          </div>
        </div>
      )}
      <div className="legend">
        <span>
          <i className="key b" /> a timed case of a variant
        </span>
        <span>
          <i className="key line" /> ceiling
        </span>
        {(ceilings.cachedBytesPerSecond > 0 || ceilings.flops8PerSecond > 0) && (
          <span>
            <i className="key dashed" /> ceiling of caches or of 8-bit elements
          </span>
        )}
      </div>
    </div>
  );
}

function nearest(plot: uPlot, points: RooflinePoint[]): RooflinePoint | undefined {
  const { left, top } = plot.cursor;
  if (left === undefined || top === undefined || left < 0) return undefined;
  let best: RooflinePoint | undefined;
  let distance = 24 ** 2;
  for (const point of points) {
    const dx = plot.valToPos(point.intensity, "x") - left;
    const dy = plot.valToPos(point.flops, "y") - top;
    const d = dx * dx + dy * dy;
    if (d < distance) [best, distance] = [point, d];
  }
  return best;
}
