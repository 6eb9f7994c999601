import { useMemo } from "react";
import type uPlot from "uplot";
import type { DeviceHealth } from "../api/types";
import { axisTimes, percent } from "../lib/format";
import { Plot, axis, margin, useColors, xAxis } from "./plot";

/** The denominators' times over time, each over its job's median: flat on a device that does not drift. */
export function DriftPlot({ device }: { device: DeviceHealth }) {
  const colors = useColors();
  const data = useMemo<uPlot.AlignedData>(() => {
    const points = [...device.drift].sort((a, b) => a.time_ns - b.time_ns);
    return [points.map((point) => point.time_ns / 1e9), points.map((point) => (point.relative - 1) * 100)];
  }, [device.drift]);
  const options = useMemo(
    () =>
      (width: number, height: number): uPlot.Options => ({
        width,
        height,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { range: margin }, y: { range: (_plot, min, max) => [Math.min(-2, min * 1.1), Math.max(2, max * 1.1)] } },
        axes: [xAxis(colors, { size: 42, label: "when it was measured", values: (_plot, splits) => axisTimes(splits) }), axis(colors, { label: "off its median", space: 22, size: 48, values: (_plot, splits) => splits.map((value) => `${value} %`) })],
        series: [{}, { paths: () => null, points: { show: true, size: 3, space: 0, stroke: colors.markB, fill: colors.markB } }],
      }),
    [colors],
  );
  const worst = Math.max(0, ...device.drift.map((point) => Math.abs(point.relative - 1)));
  return <Plot options={options} data={data} height={170} label={`Drift of the baseline's time; at most ${percent(worst, 1)} off its job's median`} />;
}
