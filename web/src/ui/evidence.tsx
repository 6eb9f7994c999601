// What the verifier and the profiler saw, per case.

import { lazy, Suspense, useState } from "react";
import type { Build, CaseMeasurement, Measurement, OutputErrors, Verification } from "../api/types";
import { bytesPerSecond, count, dash, duration, figure, flopsPerSecond, interval, percent, ratio, shortId, span, words } from "../lib/format";
import { hotMedians, type HotMedians } from "../lib/hot";
import { toolResults } from "../lib/sanitizers";
import { NotRecorded } from "./states";

const ConditionsPlot = lazy(() => import("../plots/samples-plot").then((module) => ({ default: module.ConditionsPlot })));
const SamplesPlot = lazy(() => import("../plots/samples-plot").then((module) => ({ default: module.SamplesPlot })));

/** "clocks 2.1–2.4 GHz" and the like, or that nothing was recorded. */
export function conditions(measured: CaseMeasurement): string[] {
  const range = (values: number[], unit: string, scale = 1) => {
    const known = values.filter((value) => value > 0).map((value) => value / scale);
    if (known.length === 0) return "";
    const low = Math.min(...known);
    const high = Math.max(...known);
    return low === high ? `${figure(low)} ${unit}` : `${figure(low)}–${figure(high)} ${unit}`;
  };
  const out: string[] = [];
  const clock = range(measured.blocks.map((block) => block.clock_mhz), "GHz", 1000);
  const power = range(measured.blocks.map((block) => block.power_w), "W");
  const heat = range(measured.blocks.map((block) => block.temperature_c), "°C");
  out.push(clock === "" ? "clock not recorded" : `clock ${clock}`);
  out.push(power === "" ? "power not recorded" : `power ${power}`);
  out.push(heat === "" ? "temperature not recorded" : `temperature ${heat}`);
  return out;
}

function CaseRow({ measured, describe, hot }: { measured: CaseMeasurement; describe: string; hot: HotMedians | undefined }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <tr>
        <td>
          <div>{measured.case}</div>
          <div className="muted">{describe}</div>
        </td>
        <td className="num">
          <div>{duration(measured.a_median_ns)}</div>
          {hot && <div className="muted">{duration(hot.baseline_ns)} hot</div>}
        </td>
        <td className="num">
          <div>{duration(measured.b_median_ns)}</div>
          {hot && <div className="muted">{duration(hot.candidate_ns)} hot</div>}
        </td>
        <td className="num">
          <b>{ratio(measured.ratio)}</b>
          <div className="muted">{interval(measured.ratio_low, measured.ratio_high)}</div>
          {hot && <div className="muted">{ratio(hot.ratio)} hot</div>}
        </td>
        <td className="num">
          {measured.roofline_fraction > 0 ? percent(measured.roofline_fraction) : dash}
          <div className="muted">{measured.floor_ns > 0 ? `floor ${duration(measured.floor_ns)}` : ""}</div>
        </td>
        <td className="num">
          <div>{bytesPerSecond(measured.bytes_per_s)}</div>
          <div className="muted">{measured.flops_per_s > 0 ? flopsPerSecond(measured.flops_per_s) : ""}</div>
        </td>
        <td className="num">{measured.aa_spread > 0 ? percent(measured.aa_spread, 2) : dash}</td>
        <td>
          <button type="button" className="button small" aria-expanded={open} onClick={() => setOpen(!open)} disabled={measured.blocks.length === 0}>
            {open ? "Hide" : "Samples"}
          </button>
        </td>
      </tr>
      {open && (
        <tr>
          <td colSpan={8}>
            <Suspense fallback={<div className="skeleton" style={{ height: 200 }} />}>
              <SamplesPlot measured={measured} />
              <ConditionsPlot measured={measured} />
            </Suspense>
            <p className="muted">{conditions(measured).join(" · ")}</p>
          </td>
        </tr>
      )}
    </>
  );
}

export function MeasurementTable({
  measurement,
  cases,
  environment,
}: {
  measurement: Measurement | null | undefined;
  cases: Map<string, string>;
  environment?: Record<string, unknown> | null | undefined;
}) {
  const hot = hotMedians(environment);
  if (!measurement || measurement.cases.length === 0) return <NotRecorded>No timing is recorded.</NotRecorded>;
  return (
    <>
      <div className="scroll" tabIndex={0} role="region" aria-label="Timing per case">
        <table className="plain-table">
          <thead>
            <tr>
              <th scope="col">Case</th>
              <th scope="col" className="num">Baseline</th>
              <th scope="col" className="num">Variant</th>
              <th scope="col" className="num">Speed-up</th>
              <th scope="col" className="num">Roofline</th>
              <th scope="col" className="num">Rate</th>
              <th scope="col" className="num">A/A spread</th>
              <th scope="col">
                <span className="sr">Samples</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {measurement.cases.map((measured) => (
              <CaseRow key={measured.case} measured={measured} describe={cases.get(measured.case) ?? ""} hot={hot.get(measured.case)} />
            ))}
          </tbody>
        </table>
      </div>
      <p className="muted">
        Medians; 95 % intervals. Method: {measurement.method || "not recorded"}. Calibration error {percent(measurement.calibration_error, 2)}.
        {hot.size > 0 && " Hot: with everything in the cache that fits there, which decides nothing."}
      </p>
    </>
  );
}

/** compute-sanitizer's tools over a would-be winner. */
function SanitizerTable({ verification }: { verification: Verification }) {
  const results = toolResults(verification.sanitizers);
  if (results.length === 0) return <NotRecorded>compute-sanitizer did not run: only would-be winners on GPUs of NVIDIA go under it.</NotRecorded>;
  const style = { passed: "win", failed: "bad", "not run": "warn", "not known": "warn" };
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Tools of compute-sanitizer">
      <table className="plain-table">
        <thead>
          <tr>
            <th scope="col">Tool of compute-sanitizer</th>
            <th scope="col">Result</th>
            <th scope="col">What it said</th>
          </tr>
        </thead>
        <tbody>
          {results.map((one) => (
            <tr key={one.tool}>
              <td className="mono">{one.tool}</td>
              <td>
                <span className={`badge ${style[one.result]}`}>{one.result}</span>
              </td>
              <td className="muted">{one.note || dash}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Figures of held-out cases are kept back, and an output can be empty. */
function compared(output: OutputErrors | null): output is OutputErrors {
  return output !== null && output.compared > 0;
}

export function VerificationTable({ verification }: { verification: Verification | null | undefined }) {
  if (!verification) return <NotRecorded>No verification is recorded: an earlier stage decided.</NotRecorded>;
  return (
    <>
      <p className="muted">
        {verification.passed ? "All cases passed." : "Not all cases passed."} Check mode: {(verification.check_mode || "not recorded").replace(/^not_run\b/, "did not run")}.
        {(verification.warnings ?? []).length > 0 && ` Warnings: ${(verification.warnings ?? []).join("; ")}`}
      </p>
      <div className="scroll" tabIndex={0} role="region" aria-label="Verification per case">
        <table className="plain-table">
          <thead>
            <tr>
              <th scope="col">Case</th>
              <th scope="col">Result</th>
              <th scope="col">Output</th>
              <th scope="col" className="num">Worst error / tolerance</th>
              <th scope="col" className="num">RMS error</th>
              <th scope="col" className="num">Over tolerance</th>
              <th scope="col">Checks</th>
            </tr>
          </thead>
          <tbody>
            {verification.cases.map((one) => {
              const outputs = one.outputs.length > 0 ? one.outputs : [null];
              return outputs.map((output, index) => (
                <tr key={`${one.case}-${index}`}>
                  <td>
                    {index === 0 && (
                      <>
                        <div>{one.case}</div>
                        <div className="muted">{one.describe || (one.case === "held_out" ? "its size stays hidden" : "")}</div>
                      </>
                    )}
                  </td>
                  <td>
                    {index === 0 && (
                      <span className={`badge ${one.unsupported ? "warn" : one.passed ? "win" : "bad"}`}>
                        {one.unsupported ? "unsupported" : one.passed ? "passed" : "failed"}
                      </span>
                    )}
                  </td>
                  <td className="mono">{output?.output ?? dash}</td>
                  <td className="num">{compared(output) ? figure(output.worst) : dash}</td>
                  <td className="num">{compared(output) ? figure(output.rms) : dash}</td>
                  <td className="num">{compared(output) ? `${count(output.mismatches)} of ${count(output.compared)}` : dash}</td>
                  <td className="muted checks">{index === 0 ? (one.checks ?? []).map(words).join(", ") : ""}</td>
                </tr>
              ));
            })}
          </tbody>
        </table>
      </div>
      <SanitizerTable verification={verification} />
    </>
  );
}

export function BuildList({ builds }: { builds: Build[] | null | undefined }) {
  if (!builds || builds.length === 0) return <NotRecorded>No build is recorded.</NotRecorded>;
  return (
    <div className="columns">
      {builds.map((build, index) => (
        <div key={index}>
          <p>
            <b className="mono">{(build.entries ?? []).join(", ") || dash}</b>{" "}
            <span className="muted">
              by {build.compiler || "an unknown compiler"}
              {build.cache_hit ? ", from the cache" : build.elapsed_ns ? `, ${span(build.elapsed_ns / 1e6)}` : ""}, object {build.code_object ? shortId(build.code_object) : "none"}
            </span>
          </p>
          {(build.diagnostics ?? []).length > 0 && (
            <pre className="text" tabIndex={0}>
              {(build.diagnostics ?? [])
                .map((one) => `${one.file ?? ""}:${one.line ?? 0}:${one.column ?? 0}: ${one.severity ?? ""}: ${one.text ?? ""}`)
                .join("\n")}
            </pre>
          )}
          {(build.log ?? "") !== "" && (
            <details>
              <summary>Compiler log</summary>
              <pre className="text" tabIndex={0}>
                {build.log}
              </pre>
            </details>
          )}
        </div>
      ))}
    </div>
  );
}

/** Descriptions of cases by label, from a verification. */
export function caseNames(verification: Verification | null | undefined): Map<string, string> {
  return new Map((verification?.cases ?? []).map((one) => [one.case, one.describe ?? ""]));
}
