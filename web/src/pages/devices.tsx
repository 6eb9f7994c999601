import type { ReactNode } from "react";
import { useDevices, useWorkers } from "../api/queries";
import type { DeviceHealth, DeviceReport, Worker } from "../api/types";
import { aaRate, ceilingsText, healthText } from "../lib/devices";
import { bytesPerSecond, count, dash, percent, shortId } from "../lib/format";
import { DriftPlot } from "../plots/drift-plot";
import { Card, Command, CopyId, Facts, Time, plainRows } from "../ui/parts";
import { EmptyState, ErrorState, LoadingState, NotRecorded } from "../ui/states";

const stateStyle: Record<string, string> = { idle: "win", busy: "info", draining: "warn", lost: "bad" };

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

const healthStyle: Record<string, string> = { ok: "win", suspect: "warn", quarantined: "bad" };

function HealthBadge({ report }: { report: DeviceReport }) {
  return (
    <span className={`badge ${healthStyle[report.health] ?? ""}`} title={healthText(report.health)}>
      {report.health}
    </span>
  );
}

/** What was measured of a device itself, or how to measure it. */
function reportRows(report: DeviceReport): [string, ReactNode][] {
  return [
    ["Ceilings", report.ceilings ? ceilingsText(report.ceilings) : <>not measured yet; a job measures them, or <Command text="fettle doctor --ceilings" /></>],
    [
      "A/A rate",
      report.aa ? (
        <>
          {aaRate(report.aa)}, <Time ns={report.aa.measured_ns} />
        </>
      ) : (
        <>
          not measured yet; <Command text={`fettle doctor --aa --target ${report.target}`} /> on {report.host}
        </>
      ),
    ],
  ];
}

function WorkerCard({ worker }: { worker: Worker }) {
  return (
    <Card
      title={
        <>
          {worker.host} <span className={`badge ${stateStyle[worker.state] ?? ""}`}>{worker.state}</span>
        </>
      }
      actions={<CopyId id={worker.id} label="worker id" />}
    >
      <div className="columns">
        <Facts
          rows={[
            ["Connected", <Time key="t" ns={worker.connected_ns} />],
            ["Units in hand", count(worker.leased_units)],
            ["fettle", worker.version || dash],
          ]}
        />
        <h3>Devices</h3>
        {(worker.devices ?? []).length === 0 && <NotRecorded>This worker offers no device.</NotRecorded>}
        {(worker.devices ?? []).map((device, index) => {
          const report = (worker.device_states ?? []).find((one) => one.id === device["id"]);
          return (
            <div key={index} className="columns tight">
              <div>
                <b>{text(device["id"]) || `device ${index}`}</b> {text(device["model"])} <span className="muted">{text(device["target"])}</span>{" "}
                {report && <HealthBadge report={report} />}{" "}
                {report?.load ? <span className="muted">{count(report.load)} in hand or waiting</span> : null}
              </div>
              {report && report.health !== "ok" && <p className="alert">{healthText(report.health)}</p>}
              {report ? <Facts rows={reportRows(report)} /> : <NotRecorded>This worker has not told of its devices yet.</NotRecorded>}
              <details>
                <summary>All that is known of it</summary>
                <Facts rows={plainRows(device)} />
              </details>
            </div>
          );
        })}
        <h3>Toolchains</h3>
        {(worker.compilers ?? []).length === 0 && <NotRecorded>This worker found no compiler.</NotRecorded>}
        {(worker.compilers ?? []).map((compiler, index) => (
          <div key={index}>
            <b>{compiler.name}</b> <span className="muted">{(compiler.targets ?? []).join(", ")}</span>
            <div className="mono muted" style={{ overflowWrap: "anywhere" }}>
              {compiler.identity}
            </div>
          </div>
        ))}
      </div>
    </Card>
  );
}

function HealthCard({ device }: { device: DeviceHealth }) {
  const discarded = device.blocks + device.discarded_blocks > 0 ? device.discarded_blocks / (device.blocks + device.discarded_blocks) : NaN;
  return (
    <Card title={device.device_model || "unnamed device"} actions={<span className="muted">on {device.host || "an unnamed host"}</span>}>
      <div className="columns">
        {device.reports.map((report) => (
          <div key={report.id} className="columns tight">
            <div>
              <b>{report.id}</b> <span className="muted">{report.target}</span> <HealthBadge report={report} />{" "}
              <span className="muted">
                reported <Time ns={report.reported_ns} />
              </span>
            </div>
            <Facts rows={reportRows(report)} />
          </div>
        ))}
        {device.reports.length === 0 && <NotRecorded>No worker has reported this device: its health, ceilings and A/A rate are not known.</NotRecorded>}
        <h3>Recent measurements</h3>
        <Facts
          rows={[
            ["A/A spread", device.aa_spread_median > 0 ? `median ${percent(device.aa_spread_median, 2)}, 95th percentile ${percent(device.aa_spread_p95, 2)}` : "not recorded"],
            ...(device.reports.some((report) => report.ceilings)
              ? []
              : ([["Memory ceiling", device.memory_ceiling_bytes_per_s > 0 ? `${bytesPerSecond(device.memory_ceiling_bytes_per_s)}, as its floors were made with` : "not recorded"]] as [string, string][])),
            ["Blocks discarded", Number.isFinite(discarded) ? `${count(device.discarded_blocks)} of ${count(device.blocks + device.discarded_blocks)} (${percent(discarded, 1)})` : "none measured"],
            ["Measured cases", count(device.measured_cases)],
            ["Drivers", device.drivers.join(", ") || "not recorded"],
            ["Compilers", device.compilers.map((one) => (one.length > 60 ? shortId(one) : one)).join(", ") || "not recorded"],
            ["Last measured", <Time key="t" ns={device.last_ns} />],
          ]}
        />
        <h3>Drift of the baseline&apos;s time</h3>
        {device.drift.length >= 2 ? <DriftPlot device={device} /> : <NotRecorded>Too few measurements of one baseline in one job to tell.</NotRecorded>}
      </div>
    </Card>
  );
}

export default function DevicesPage() {
  const workers = useWorkers();
  const devices = useDevices();
  if (workers.isPending) return <LoadingState />;
  if (!workers.data) return <ErrorState error={workers.error} retry={() => void workers.refetch()} />;
  return (
    <div className="page">
      <div className="head">
        <h1>Devices and workers</h1>
        <span className="muted">{count(workers.data.length)} connected</span>
      </div>
      <h2>Workers</h2>
      {workers.data.length === 0 ? (
        <EmptyState title="No worker is connected">
          <p>
            Jobs wait for one. Start one with <code>fettle worker</code>, or let <code>fettle serve</code> start its own.
          </p>
        </EmptyState>
      ) : (
        <div className="columns halves">
          {workers.data.map((worker) => (
            <WorkerCard key={worker.id} worker={worker} />
          ))}
        </div>
      )}
      <h2>Devices</h2>
      {devices.error ? (
        <ErrorState error={devices.error} retry={() => void devices.refetch()} />
      ) : devices.data && devices.data.length > 0 ? (
        <div className="columns halves">
          {devices.data.map((device) => (
            <HealthCard key={`${device.device_model} ${device.host}`} device={device} />
          ))}
        </div>
      ) : (
        <NotRecorded>{devices.isPending ? "Loading" : "No worker has reported a device, and nothing has been measured yet."}</NotRecorded>
      )}
    </div>
  );
}
