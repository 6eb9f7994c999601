import { useMemo } from "react";
import { Link, useLocation } from "wouter";
import { useCases, useCatalog, useCeilings } from "../api/queries";
import type { VariantCase } from "../api/types";
import { bytesPerSecond, count, dash, duration, flopsPerSecond, percent, ratio } from "../lib/format";
import { ceilingsFor, place } from "../lib/roofline";
import { useParameters } from "../lib/url";
import { RooflinePlot } from "../plots/roofline-plot";
import { Grid, type Column } from "../ui/grid";
import { Card, Meter, Select, Tile, Time } from "../ui/parts";
import { EmptyState, ErrorState, LoadingState, NotRecorded } from "../ui/states";

const defaults = { target: "", device: "", task: "", status: "accepted" };

const columns: Column<VariantCase>[] = [
  {
    key: "task",
    name: "Operator",
    width: "minmax(130px, 1.5fr)",
    cell: (one) => (
      <Link className="cover" href={`/variants/${one.variant_id}`}>
        {one.task}
      </Link>
    ),
  },
  { key: "case", name: "Case", width: "minmax(70px, 0.7fr)", cell: (one) => one.case },
  {
    key: "fraction",
    name: "Roofline",
    width: "110px",
    cell: (one) =>
      one.roofline_fraction > 0 ? (
        <span>
          <span className="verdict-counts">{percent(one.roofline_fraction)}</span>
          <Meter fraction={one.roofline_fraction} label="of the roofline" warnAt={2} />
        </span>
      ) : (
        <span className="muted">not known</span>
      ),
  },
  { key: "time", name: "Time", width: "84px", align: "right", from: 520, cell: (one) => duration(one.variant_ns) },
  { key: "floor", name: "Floor", width: "84px", align: "right", from: 620, cell: (one) => duration(one.floor_ns) },
  { key: "bytes", name: "Bytes", width: "96px", align: "right", from: 700, cell: (one) => bytesPerSecond(one.bytes_per_s) },
  { key: "flops", name: "Flops", width: "110px", align: "right", from: 800, cell: (one) => flopsPerSecond(one.flops_per_s) },
  { key: "ratio", name: "Speed-up", width: "80px", align: "right", from: 440, cell: (one) => ratio(one.ratio) },
];

export default function RooflinePage() {
  const [view, setView] = useParameters(defaults);
  const [, navigate] = useLocation();
  const catalog = useCatalog();
  const entries = catalog.data ?? [];
  const targets = [...new Set(entries.map((entry) => entry.target))].sort();
  const target = view.target || targets[0] || "";
  const models = [...new Set(entries.filter((entry) => entry.target === target).map((entry) => entry.device_model))].sort();
  const device = models.includes(view.device) ? view.device : (models[0] ?? "");
  const cases = useCases({ target, task: view.task, status: view.status }, target !== "");
  const mine = useMemo(() => (cases.data ?? []).filter((one) => one.device_model === device), [cases.data, device]);
  const placed = useMemo(() => place(mine), [mine]);
  const measured = useCeilings(target);
  const ceilings = useMemo(() => ceilingsFor(measured.data ?? [], device, mine), [measured.data, device, mine]);
  const by = ceilings.measuredBy;
  const source = by ? `measured on ${by.host}` : "from the stored floors";
  const rows = useMemo(() => [...mine].sort((a, b) => b.roofline_fraction - a.roofline_fraction), [mine]);
  const tasks = [...new Set(entries.filter((entry) => entry.target === target).map((entry) => entry.task))].sort();
  if (catalog.isPending) return <LoadingState />;
  if (!catalog.data) return <ErrorState error={catalog.error} retry={() => void catalog.refetch()} />;
  if (targets.length === 0) {
    return (
      <EmptyState title="No variants yet">
        <p>Once a variant was accepted, its timed cases appear here under its device&apos;s ceilings.</p>
      </EmptyState>
    );
  }
  return (
    <div className="page">
      <div className="head">
        <h1>Roofline</h1>
        <span className="grow" />
        <div className="filters">
          <Select label="Target" value={target} onChange={(next) => setView({ target: next, device: "", task: "" })} options={targets.map((one) => ({ value: one, name: one }))} />
          <Select label="Device" value={device} onChange={(next) => setView({ device: next })} options={models.map((one) => ({ value: one, name: one }))} />
          <Select
            label="Operator"
            value={view.task}
            onChange={(task) => setView({ task })}
            options={[{ value: "", name: "Any operator" }, ...tasks.map((task) => ({ value: task, name: task }))]}
          />
          <Select
            label="Status"
            value={view.status}
            onChange={(status) => setView({ status })}
            options={[
              { value: "accepted", name: "accepted" },
              { value: "", name: "Any status" },
            ]}
          />
        </div>
      </div>
      {cases.isPending ? (
        <LoadingState />
      ) : cases.error ? (
        <ErrorState error={cases.error} retry={() => void cases.refetch()} />
      ) : (
        <>
          <div className="tiles">
            <Tile label="Memory ceiling" note={by ? source : "from the stored floors: the highest of its cases"}>
              {ceilings.bytesPerSecond > 0 ? bytesPerSecond(ceilings.bytesPerSecond) : dash}
            </Tile>
            {ceilings.cachedBytesPerSecond > 0 && (
              <Tile label="Ceiling of the caches" note={source}>
                {bytesPerSecond(ceilings.cachedBytesPerSecond)}
              </Tile>
            )}
            <Tile label="Arithmetic ceiling" note={ceilings.flopsPerSecond > 0 ? `16-bit matrix multiplication, ${source}` : by ? "not measured on this device" : "no case here is bound by it"}>
              {ceilings.flopsPerSecond > 0 ? flopsPerSecond(ceilings.flopsPerSecond) : "not recorded"}
            </Tile>
            {ceilings.flops8PerSecond > 0 && (
              <Tile label="Of 8-bit elements" note={source}>
                {flopsPerSecond(ceilings.flops8PerSecond)}
              </Tile>
            )}
            <Tile label="Timed cases" note={by ? <>ceilings reported <Time ns={by.reported_ns} /></> : undefined}>
              {count(mine.length)}
            </Tile>
          </div>
          <Card title={`Variants on ${device}`}>
            {placed.points.length > 0 ? (
              <RooflinePlot points={placed.points} ceilings={ceilings} onChoose={(point) => navigate(`/variants/${point.source.variant_id}`)} />
            ) : (
              <NotRecorded>None of these cases has both bytes and flops in its task&apos;s work formula, so none has a place in the plot.</NotRecorded>
            )}
            {placed.unplaced > 0 && placed.points.length > 0 && (
              <p className="muted">{count(placed.unplaced)} cases have no flops or no bytes in their task&apos;s work formula and are only in the table.</p>
            )}
          </Card>
          <div style={{ height: Math.min(560, 60 + Math.max(rows.length, 3) * 40), display: "flex" }}>
            <Grid label="Timed cases" columns={columns} rows={rows} rowKey={(one) => `${one.variant_id} ${one.case}`} rowHeight={40} empty={<p className="grid-foot">No case fits.</p>} />
          </div>
        </>
      )}
    </div>
  );
}
