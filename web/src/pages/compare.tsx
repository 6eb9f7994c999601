import { useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { get } from "../api/client";
import { useCases, useCatalog, useVariants } from "../api/queries";
import type { CaseMeasurement, Variant } from "../api/types";
import { latencyRatios, type FamilyRatio } from "../lib/compare";
import { duration, interval, percent, ratio, shortId, values } from "../lib/format";
import { useParameters } from "../lib/url";
import { caseNames } from "../ui/evidence";
import { Card, Select } from "../ui/parts";
import { EmptyState, ErrorState, NotRecorded } from "../ui/states";

const defaults = { ids: "", task: "", left: "", right: "" };
const most = 6;

/** A position on a logarithmic axis from `low` to `high`, in percent. */
function at(value: number, low: number, high: number): number {
  return Math.max(0, Math.min(100, (Math.log(value / low) / Math.log(high / low)) * 100));
}

function DotRow({ low, value, high, from, to }: { low: number; value: number; high: number; from: number; to: number }) {
  return (
    <span className="interval">
      <svg viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">
        <line x1={at(1, from, to)} x2={at(1, from, to)} y1="0" y2="14" stroke="var(--line-strong)" strokeDasharray="2 2" vectorEffect="non-scaling-stroke" />
        <line x1={at(low, from, to)} x2={at(high, from, to)} y1="7" y2="7" stroke="var(--mark-b)" strokeWidth="5" vectorEffect="non-scaling-stroke" />
        <line x1={at(value, from, to)} x2={at(value, from, to)} y1="2" y2="12" stroke="var(--text)" strokeWidth="2" vectorEffect="non-scaling-stroke" />
      </svg>
    </span>
  );
}

function ByShape({ variants }: { variants: Variant[] }) {
  const names = new Map<string, string>();
  const measured = new Map<string, Map<string, CaseMeasurement>>();
  // The same label is another shape in another task.
  const several = new Set(variants.map((variant) => variant.task_digest)).size > 1;
  for (const variant of variants) {
    const keyed = (label: string) => (several ? `${variant.task_name} ${label}` : label);
    for (const [label, text] of caseNames(variant.provenance?.verification)) if (text !== "") names.set(keyed(label), text);
    measured.set(variant.id, new Map((variant.provenance?.measurement?.cases ?? []).map((one) => [keyed(one.case), one])));
  }
  const labels = [...new Set([...measured.values()].flatMap((cases) => [...cases.keys()]))].sort();
  const all = [...measured.values()].flatMap((cases) => [...cases.values()]);
  const from = Math.min(0.9, ...all.map((one) => one.ratio_low).filter((value) => value > 0));
  const to = Math.max(1.5, ...all.map((one) => one.ratio_high));
  if (labels.length === 0) return <NotRecorded>No timed case is recorded for these variants.</NotRecorded>;
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Speed-up by shape">
      <table className="plain-table">
        <thead>
          <tr>
            <th scope="col">Case</th>
            {variants.map((variant) => (
              <th scope="col" key={variant.id}>
                <Link href={`/variants/${variant.id}`}>{shortId(variant.id)}</Link> {variant.target}
                <div className="mono wrap">{values(variant.values)}</div>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {labels.map((label) => (
            <tr key={label}>
              <td>
                <div>{label}</div>
                <div className="muted">{names.get(label) ?? ""}</div>
              </td>
              {variants.map((variant) => {
                const one = measured.get(variant.id)?.get(label);
                if (!one) {
                  return (
                    <td key={variant.id} className="muted">
                      not measured
                    </td>
                  );
                }
                return (
                  <td key={variant.id}>
                    <span className="speed" title={interval(one.ratio_low, one.ratio_high)}>
                      <b>{ratio(one.ratio)}</b>
                      <DotRow low={one.ratio_low} value={one.ratio} high={one.ratio_high} from={from} to={to} />
                    </span>
                    <div className="muted">
                      {duration(one.b_median_ns)}
                      {one.roofline_fraction > 0 ? `, ${percent(one.roofline_fraction)} of the roofline` : ""}
                    </div>
                  </td>
                );
              })}
            </tr>
          ))}
          <tr>
            <td>
              <b>All cases</b>
            </td>
            {variants.map((variant) => (
              <td key={variant.id}>
                <b className="best">{ratio(variant.ratio)}</b> <span className="muted">{interval(variant.ratio_low, variant.ratio_high)}</span>
              </td>
            ))}
          </tr>
        </tbody>
      </table>
    </div>
  );
}

function Families({ left, right }: { left: string; right: string }) {
  const onLeft = useCases({ target: left, task: "", status: "accepted" }, left !== "");
  const onRight = useCases({ target: right, task: "", status: "accepted" }, right !== "");
  const rows = useMemo<FamilyRatio[]>(() => latencyRatios(onLeft.data ?? [], onRight.data ?? []), [onLeft.data, onRight.data]);
  if (left === "" || right === "" || left === right) return <NotRecorded>Choose two different targets.</NotRecorded>;
  if (onLeft.error ?? onRight.error) return <ErrorState error={onLeft.error ?? onRight.error} />;
  if (onLeft.isPending || onRight.isPending) return <div className="skeleton" />;
  if (rows.length === 0) return <NotRecorded>No task has accepted variants with the same timed cases on both targets.</NotRecorded>;
  const from = Math.min(0.5, ...rows.map((row) => row.low));
  const to = Math.max(2, ...rows.map((row) => row.high));
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Latency ratio by kernel family">
      <table className="plain-table">
        <thead>
          <tr>
            <th scope="col">Kernel family</th>
            <th scope="col" className="num">
              Time {left} / {right}
            </th>
            <th scope="col" className="num">Cases</th>
            <th scope="col" style={{ width: "45%" }}>Cases from the least to the largest ratio</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.task}>
              <td>
                {row.task} <span className="muted">({row.ratio < 1 ? `${left} is faster` : `${right} is faster`})</span>
              </td>
              <td className="num">
                <b>{ratio(row.ratio)}</b>
              </td>
              <td className="num">{row.cases}</td>
              <td>
                <span className="speed" title={`${ratio(row.low)} to ${ratio(row.high)}`}>
                  <DotRow low={row.low} value={row.ratio} high={row.high} from={from} to={to} />
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export default function ComparePage() {
  const [view, setView] = useParameters(defaults);
  const [adding, setAdding] = useState("");
  const ids = view.ids.split(",").filter((id) => id !== "").slice(0, most);
  const catalog = useCatalog();
  const results = useQueries({
    queries: ids.map((id) => ({
      queryKey: ["variant", id],
      staleTime: 60_000,
      queryFn: async ({ signal }: { signal: AbortSignal }) =>
        (await get<{ variant: Variant }>(`/api/v1/variants/${encodeURIComponent(id)}`, signal)).variant,
    })),
  });
  const variants = results.map((result) => result.data).filter((one): one is Variant => one !== undefined);
  const failed = results.find((result) => result.error);
  const tasks = [...new Set((catalog.data ?? []).map((entry) => entry.task))].sort();
  const targets = [...new Set((catalog.data ?? []).map((entry) => entry.target))].sort();
  const task = view.task || variants[0]?.task_name || tasks[0] || "";
  const choice = useVariants(useMemo(() => ({ task, target: "", device: "", status: "", job: "", q: "", sort: "-ratio" }), [task]));
  const options = (choice.data?.pages[0]?.variants ?? []).filter((one) => one.task_name === task && !ids.includes(one.id));
  const left = view.left || targets[0] || "";
  const right = view.right || targets.find((target) => target !== left) || "";
  const targetOptions = targets.map((target) => ({ value: target, name: target }));
  return (
    <div className="page">
      <div className="head">
        <h1>Compare</h1>
      </div>
      <Card
        title="Speed-up by shape"
        flush={variants.length > 0}
        actions={
          <div className="filters">
            <Select label="Operator" value={task} onChange={(next) => setView({ task: next })} options={tasks.map((name) => ({ value: name, name }))} />
            <Select
              label="Add a variant"
              value={adding}
              onChange={(id) => {
                if (id !== "") setView({ ids: [...ids, id].slice(-most).join(",") });
                setAdding("");
              }}
              options={[
                { value: "", name: "Add a variant" },
                ...options.map((one) => ({ value: one.id, name: `${shortId(one.id)} · ${one.target} · ${ratio(one.ratio)} · ${values(one.values)}` })),
              ]}
            />
            {ids.length > 0 && (
              <button type="button" className="button plain" onClick={() => setView({ ids: "" })}>
                Clear
              </button>
            )}
          </div>
        }
      >
        {failed?.error && variants.length === 0 ? (
          <ErrorState error={failed.error} />
        ) : variants.length > 0 ? (
          <>
            <ByShape variants={variants} />
            <p className="muted caption">Bars are 95 % intervals, on one scale for all; the dotted line is 1×, what each was measured against.</p>
          </>
        ) : ids.length > 0 ? (
          <div className="skeleton" />
        ) : (
          <EmptyState title="Nothing to compare yet">
            <p>
              Add variants here, or choose some in the <Link href="/variants">catalogue</Link>.
            </p>
          </EmptyState>
        )}
      </Card>
      <Card
        title="Latency by kernel family, on two targets"
        actions={
          <div className="filters">
            <Select label="First target" value={left} onChange={(next) => setView({ left: next })} options={targetOptions} />
            <Select label="Second target" value={right} onChange={(next) => setView({ right: next })} options={targetOptions} />
          </div>
        }
      >
        <Families left={left} right={right} />
        <p className="muted">
          The fastest accepted variant per case on each target; the ratio is the geometric mean over the timed cases that both have. Cases
          sized for one kind of target alone are left out.
        </p>
      </Card>
    </div>
  );
}
