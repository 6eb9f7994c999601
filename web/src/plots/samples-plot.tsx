import { useMemo } from "react";
import type uPlot from "uplot";
import type { CaseMeasurement } from "../api/types";
import { duration } from "../lib/format";
import { Plot, axis, useColors } from "./plot";

/** Every timed sample of both sides, block by block. */
export function SamplesPlot({ measured }: { measured: CaseMeasurement }) {
  const colors = useColors();
  const data = useMemo(() => {
    const x: number[] = [];
    const a: (number | null)[] = [];
    const b: (number | null)[] = [];
    measured.blocks.forEach((block, index) => {
      const most = Math.max(block.a_ns.length, block.b_ns.length);
      for (let i = 0; i < most; i += 1) {
        x.push(index + 1 + (most > 1 ? (i / (most - 1) - 0.5) * 0.6 : 0));
        a.push(block.a_ns[i] ?? null);
        b.push(block.b_ns[i] ?? null);
      }
    });
    return [x, a, b] as uPlot.AlignedData;
  }, [measured]);
  const options = useMemo(() => {
    const none = () => null;
    return (width: number, height: number): uPlot.Options => ({
      width,
      height,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false } },
      axes: [
        axis(colors, { label: "block" }),
        axis(colors, { size: 64, values: (_plot, splits) => splits.map((value) => duration(value)) }),
      ],
      series: [
        {},
        { paths: none, points: { show: true, size: 4, space: 0, stroke: colors.markA, fill: colors.markA } },
        { paths: none, points: { show: true, size: 4, space: 0, stroke: colors.markB, fill: colors.markB } },
      ],
    });
  }, [colors]);
  return (
    <div className="plot">
      <Plot
        options={options}
        data={data}
        height={200}
        label={`Samples of case ${measured.case}: baseline around ${duration(measured.a_median_ns)}, variant around ${duration(measured.b_median_ns)}`}
      />
      <div className="legend">
        <span>
          <i className="key a" /> baseline
        </span>
        <span>
          <i className="key b" /> variant
        </span>
        <span>
          {measured.blocks.length} blocks, {measured.discarded_blocks} discarded; {measured.launches_per_sample} launches a sample
        </span>
      </div>
    </div>
  );
}
