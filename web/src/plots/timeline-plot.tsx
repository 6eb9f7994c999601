import { useMemo, useRef, useState } from "react";
import type uPlot from "uplot";
import { interval, ratio, words } from "../lib/format";
import { bestSoFar, kindOf, type Point } from "../lib/timeline";
import { Plot, axis, margin, useColors, whole, xAxis } from "./plot";

const mostWhiskers = 1500;

interface Props {
  points: Point[]; // By ordinal.
  by: "time" | "ordinal";
  onChoose: (point: Point) => void;
}

/** Speed-ups over time or order, their intervals, what failed along the bottom, the best so far. */
export function TimelinePlot({ points, by, onChoose }: Props) {
  const colors = useColors();
  const [hover, setHover] = useState<{ point: Point; left: number; top: number } | null>(null);
  const chooser = useRef(onChoose);
  chooser.current = onChoose;

  const prepared = useMemo(() => {
    const shown = points.filter((point) => kindOf(point) !== "open");
    if (by === "time") shown.sort((a, b) => a.judgedMs - b.judgedMs);
    const start = shown[0]?.judgedMs ?? 0;
    const x = shown.map((point) => (by === "time" ? (point.judgedMs - start) / 60_000 : point.ordinal));
    // Where intervals are drawn they fit in.
    const whiskers = shown.length <= mostWhiskers;
    let low = 0.95;
    let top = 0;
    for (const point of shown) {
      if (!(point.ratio > 0)) continue;
      low = Math.min(low, point.ratio, whiskers && point.low > 0 ? point.low : point.ratio);
      if (whiskers) top = Math.max(top, point.high);
    }
    const floor = Math.max(0.02, low * 0.9);
    const best = bestSoFar(shown);
    const data: uPlot.AlignedData = [
      x,
      shown.map((point) => (kindOf(point) === "measured" ? point.ratio : null)),
      shown.map((point) => (kindOf(point) === "win" ? point.ratio : null)),
      shown.map((point) => (kindOf(point) === "failed" ? floor : null)),
      best.map((value) => (value > 0 ? value : null)),
    ];
    return { shown, data, floor, top };
  }, [points, by]);

  const latest = useRef(prepared);
  latest.current = prepared;

  const options = useMemo(() => {
    return (width: number, height: number): uPlot.Options => {
      const dots = (size: number) => ({ show: true, size, space: 0 });
      const none = () => null;
      return {
        width,
        height,
        legend: { show: false },
        cursor: { drag: { x: true, y: false }, points: { show: false }, focus: { prox: 24 } },
        scales: {
          x: { time: false, range: margin },
          y: {
            range: (_plot, _min, max) => [latest.current.floor * 0.92, Math.max(1.15, max * 1.06, latest.current.top * 1.02)],
            distr: 3,
            log: 2,
          },
        },
        axes: [
          xAxis(colors, by === "time" ? { label: "minutes since the first verdict" } : { label: "candidate", incrs: whole }),
          axis(colors, {
            label: "speed-up",
            size: 52,
            splits: (_plot, _axis, min, max) => [0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8, 12, 16, 24, 32].filter((v) => v >= min && v <= max),
            values: (_plot, splits) => splits.map((value) => `${value}×`),
          }),
        ],
        series: [
          {},
          { stroke: colors.markA, fill: colors.markA, paths: none, points: { ...dots(4), stroke: colors.markA, fill: colors.markA } },
          { stroke: colors.win, fill: colors.win, paths: none, points: { ...dots(8), stroke: colors.surface, fill: colors.win } },
          { stroke: colors.bad, fill: colors.bad, paths: none, points: { ...dots(3), stroke: colors.bad, fill: colors.bad } },
          {
            stroke: colors.accent,
            width: 2,
            points: { show: false },
            spanGaps: true,
            paths: (plot, series, first, last) => steps(plot, series, first, last),
          },
        ],
        hooks: {
          drawAxes: [
            (plot) => {
              // Parity.
              const y = Math.round(plot.valToPos(1, "y", true)) + 0.5;
              const { ctx } = plot;
              ctx.save();
              ctx.strokeStyle = colors.muted;
              ctx.setLineDash([4, 4]);
              ctx.beginPath();
              ctx.moveTo(plot.bbox.left, y);
              ctx.lineTo(plot.bbox.left + plot.bbox.width, y);
              ctx.stroke();
              ctx.restore();
            },
          ],
          draw: [
            (plot) => {
              const { shown, data } = latest.current;
              const xs = data[0];
              if (xs.length > mostWhiskers) return;
              const { ctx } = plot;
              ctx.save();
              ctx.beginPath();
              ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
              ctx.clip();
              ctx.globalAlpha = 0.55;
              shown.forEach((point, index) => {
                if (!(point.low > 0) || !(point.ratio > 0)) return;
                const x = Math.round(plot.valToPos(xs[index]!, "x", true)) + 0.5;
                ctx.strokeStyle = point.verdict === "WIN" ? colors.win : colors.markA;
                ctx.beginPath();
                ctx.moveTo(x, plot.valToPos(point.low, "y", true));
                ctx.lineTo(x, plot.valToPos(point.high, "y", true));
                ctx.stroke();
              });
              ctx.restore();
            },
          ],
          setCursor: [
            (plot) => {
              const index = plot.cursor.idx;
              const point = index === null || index === undefined ? undefined : latest.current.shown[index];
              if (!point || (plot.cursor.left ?? -1) < 0) return setHover(null);
              setHover({ point, left: (plot.cursor.left ?? 0) + plot.bbox.left / devicePixelRatio, top: plot.cursor.top ?? 0 });
            },
          ],
          ready: [
            (plot) => {
              plot.over.addEventListener("click", () => {
                const index = plot.cursor.idx;
                const point = index === null || index === undefined ? undefined : latest.current.shown[index];
                if (point && plot.select.width < 3) chooser.current(point);
              });
            },
          ],
        },
      };
    };
  }, [colors, by]);

  const wins = prepared.shown.filter((point) => point.verdict === "WIN").length;
  const best = Math.max(0, ...prepared.shown.filter((point) => point.verdict === "WIN").map((point) => point.ratio));
  return (
    <div className="plot">
      <Plot
        options={options}
        data={prepared.data}
        height={280}
        label={`Speed-ups of ${prepared.shown.length} judged candidates; ${wins} won, the best ${ratio(best)}. The table below holds them all.`}
      />
      {hover && (
        <div className="tip" style={{ left: Math.max(0, Math.min(hover.left + 12, window.innerWidth - 280)), top: Math.max(0, hover.top - 8) }}>
          <b>#{hover.point.ordinal}</b> {words(hover.point.verdict)}
          {hover.point.reason !== "" && <span className="muted"> · {words(hover.point.reason)}</span>}
          <div>
            {ratio(hover.point.ratio)} {hover.point.low > 0 && <span className="muted">{interval(hover.point.low, hover.point.high)}</span>}
          </div>
        </div>
      )}
      <div className="legend">
        <span>
          <i className="key win" /> won
        </span>
        <span>
          <i className="key a" /> measured, not fast enough
        </span>
        <span>
          <i className="key bad" /> failed, along the bottom
        </span>
        <span>
          <i className="key line" /> best so far: what won last
        </span>
        {prepared.shown.length <= mostWhiskers && <span>lines: 95 % intervals</span>}
      </div>
    </div>
  );
}

function steps(plot: uPlot, series: number, first: number, last: number): uPlot.Series.Paths {
  const xs = plot.data[0];
  const ys = plot.data[series]!;
  const stroke = new Path2D();
  let open = false;
  let before = 0;
  for (let i = first; i <= last; i += 1) {
    const value = ys[i];
    if (value === null || value === undefined) continue;
    const x = plot.valToPos(xs[i]!, "x", true);
    const y = plot.valToPos(value, "y", true);
    if (!open) stroke.moveTo(x, y);
    else {
      stroke.lineTo(x, before);
      stroke.lineTo(x, y);
    }
    before = y;
    open = true;
  }
  if (open) stroke.lineTo(plot.bbox.left + plot.bbox.width, before);
  return { stroke } as uPlot.Series.Paths;
}
