import { useMemo } from "react";
import type uPlot from "uplot";
import type { CaseMeasurement } from "../api/types";
import { duration } from "../lib/format";
import { Plot, axis, margin, useColors, whole, xAxis } from "./plot";

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
      scales: { x: { time: false, range: margin } },
      axes: [
        xAxis(colors, { label: "block", incrs: whole }),
        axis(colors, { label: "time per launch", size: 64, values: (_plot, splits) => splits.map((value) => (value === 0 ? "0" : duration(value))) }),
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
          {measured.blocks.length} blocks, {measured.discarded_blocks} discarded; {measured.launches_per_sample} {measured.launches_per_sample === 1 ? "launch" : "launches"} a sample
        </span>
      </div>
    </div>
  );
}

/** Clock and power of each block, on axes of their own; what the device did not tell is left out. */
export function ConditionsPlot({ measured }: { measured: CaseMeasurement }) {
  const colors = useColors();
  const known = useMemo(() => {
    const of = (value: (block: CaseMeasurement["blocks"][number]) => number) => {
      const values = measured.blocks.map((block) => (value(block) > 0 ? value(block) : null));
      return values.some((one) => one !== null) ? values : null;
    };
    return { clock: of((block) => block.clock_mhz), power: of((block) => block.power_w) };
  }, [measured]);
  const data = useMemo(() => {
    const blank = measured.blocks.map(() => null);
    return [measured.blocks.map((_, index) => index + 1), known.clock ?? blank, known.power ?? blank] as uPlot.AlignedData;
  }, [measured, known]);
  const options = useMemo(() => {
    const around = (_plot: uPlot, min: number, max: number): [number, number] => {
      const room = Math.max((max - min) * 0.2, max * 0.02, 1);
      return [Math.max(0, min - room), max + room];
    };
    return (width: number, height: number): uPlot.Options => ({
      width,
      height,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: margin }, clock: { range: around }, power: { range: around } },
      axes: [
        xAxis(colors, { label: "block", incrs: whole }),
        axis(colors, { scale: "clock", space: 22, label: "clock, MHz", size: 64, show: known.clock !== null }),
        axis(colors, { scale: "power", space: 22, label: "power, W", size: 56, side: 1, grid: { show: false }, show: known.power !== null }),
      ],
      series: [
        {},
        { scale: "clock", stroke: colors.info, width: 1.5, points: { show: true, size: 4, space: 0, stroke: colors.info, fill: colors.info } },
        { scale: "power", stroke: colors.warn, width: 1.5, dash: [4, 3], points: { show: true, size: 4, space: 0, stroke: colors.warn, fill: colors.warn } },
      ],
    });
  }, [colors, known]);
  if (known.clock === null && known.power === null) return null;
  return (
    <div className="plot">
      <Plot options={options} data={data} height={150} label={`Clock and power of case ${measured.case} by block`} />
      <div className="legend">
        {known.clock && (
          <span>
            <i className="key info" /> clock
          </span>
        )}
        {known.power && (
          <span>
            <i className="key warn" /> power
          </span>
        )}
      </div>
    </div>
  );
}
