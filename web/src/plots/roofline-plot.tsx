import { useMemo, useRef, useState } from "react";
import type uPlot from "uplot";
import { bytesPerSecond, duration, flopsPerSecond, percent, ratio } from "../lib/format";
import type { Ceilings, RooflinePoint } from "../lib/roofline";
import { Plot, axis, useColors } from "./plot";

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
    const xs = sorted.map((p) => p.intensity);
    const x0 = Math.min(0.05, ...xs) / 2;
    const x1 = Math.max(16, ...xs) * 2;
    const ys = sorted.map((p) => p.flops);
    const roof = (x: number) => Math.min(ceilings.bytesPerSecond * x || Infinity, ceilings.flopsPerSecond || Infinity);
    const y1 = Math.max(...ys, Number.isFinite(roof(x1)) ? roof(x1) : 0) * 2;
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
        axis(colors, { label: "arithmetic intensity, flop per byte", values: (_plot, splits) => splits.map(superscript) }),
        axis(colors, {
          label: "achieved",
          size: 84,
          values: (_plot, splits) => splits.map((value) => (superscript(value) === "" ? "" : flopsPerSecond(value))),
        }),
      ],
      series: [{}, { paths: () => null, points: { show: true, size: 7, space: 0, stroke: colors.surface, fill: colors.markB } }],
      hooks: {
        drawAxes: [
          (plot) => {
            const { ctx } = plot;
            ctx.save();
            ctx.beginPath();
            ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
            ctx.clip();
            ctx.strokeStyle = colors.accent;
            ctx.lineWidth = 2 * devicePixelRatio;
            if (ceilings.bytesPerSecond > 0) {
              ctx.beginPath();
              const steps = 128;
              for (let i = 0; i <= steps; i += 1) {
                const x = x0 * (x1 / x0) ** (i / steps);
                const px = plot.valToPos(x, "x", true);
                const py = plot.valToPos(roof(x), "y", true);
                if (i === 0) ctx.moveTo(px, py);
                else ctx.lineTo(px, py);
              }
              ctx.stroke();
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
        label={`${points.length} timed cases by arithmetic intensity and achieved rate; memory ceiling ${bytesPerSecond(ceilings.bytesPerSecond)}. The table below holds them.`}
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
