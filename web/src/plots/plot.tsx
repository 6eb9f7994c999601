// A canvas plot that follows its box and the theme. What it shows is also said in words or in a
// table beside it, since a canvas says nothing to a screen reader.

import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Colors {
  text: string;
  muted: string;
  line: string;
  accent: string;
  win: string;
  bad: string;
  warn: string;
  info: string;
  markA: string;
  markB: string;
  surface: string;
}

function readColors(): Colors {
  // A canvas knows no variables: an element resolves them for the theme of the moment.
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const style = getComputedStyle(probe);
  const of = (name: string) => {
    probe.style.color = `var(${name})`;
    return style.color;
  };
  const colors = {
    text: of("--text"),
    muted: of("--muted"),
    line: of("--line"),
    accent: of("--accent"),
    win: of("--win"),
    bad: of("--bad"),
    warn: of("--warn"),
    info: of("--info"),
    markA: of("--mark-a"),
    markB: of("--mark-b"),
    surface: of("--surface"),
  };
  probe.remove();
  return colors;
}

/** The theme's colours, anew when it changes. */
export function useColors(): Colors {
  const [colors, setColors] = useState(readColors);
  useEffect(() => {
    const update = () => setColors(readColors());
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    window.addEventListener("fettle-theme", update);
    system.addEventListener("change", update);
    return () => {
      window.removeEventListener("fettle-theme", update);
      system.removeEventListener("change", update);
    };
  }, []);
  return colors;
}

export function axis(colors: Colors, more: uPlot.Axis = {}): uPlot.Axis {
  return {
    stroke: colors.muted,
    font: "11px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif",
    labelSize: 18,
    grid: { stroke: colors.line, width: 1 },
    ticks: { stroke: colors.line, width: 1, size: 4 },
    ...more,
  };
}

/** The horizontal one: its numbers need one line, not the height that uPlot keeps. */
export function xAxis(colors: Colors, more: uPlot.Axis = {}): uPlot.Axis {
  return axis(colors, { size: 28, ...more });
}

/** Steps of an axis that counts. */
export const whole = [1, 2, 5].flatMap((step) => [1, 10, 100, 1e3, 1e4, 1e5].map((ten) => step * ten)).sort((a, b) => a - b);

/** Room at both ends, so that no mark is cut. */
export function margin(_plot: uPlot, min: number, max: number): [number, number] {
  const room = Math.max((max - min) * 0.015, 1e-3);
  return [min - room, max + room];
}

interface PlotProps {
  options: (width: number, height: number) => uPlot.Options; // Memoize: a new one makes a new plot.
  data: uPlot.AlignedData;
  height: number;
  label: string;
}

export function Plot({ options, data, height, label }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const made = new uPlot(options(element.clientWidth, height), latest.current, element);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0) made.setSize({ width: element.clientWidth, height });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [options, height]);
  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);
  return <div className="plot-canvas" ref={box} role="img" aria-label={label} style={{ minHeight: height }} />;
}
