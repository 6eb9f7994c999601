import { useDevices, useWorkers } from "../api/queries";
import type { DeviceHealth, Worker } from "../api/types";
import { bytesPerSecond, count, dash, percent, shortId } from "../lib/format";
import { DriftPlot } from "../plots/drift-plot";
import { Card, CopyId, Facts, Time, plainRows } from "../ui/parts";
import { EmptyState, ErrorState, LoadingState, NotRecorded } from "../ui/states";

const stateStyle: Record<string, string> = { idle: "win", busy: "info", draining: "warn", lost: "bad" };

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
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
        {(worker.devices ?? []).map((device, index) => (
          <details key={index}>
            <summary>
              <b>{text(device["id"]) || `device ${index}`}</b> {text(device["model"])} <span className="muted">{text(device["target"])}</span>
            </summary>
            <Facts rows={plainRows(device)} />
          </details>
        ))}
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
        <Facts
          rows={[
            ["A/A spread", device.aa_spread_median > 0 ? `median ${percent(device.aa_spread_median, 2)}, 95th percentile ${percent(device.aa_spread_p95, 2)}` : "not recorded"],
            ["Memory ceiling", device.memory_ceiling_bytes_per_s > 0 ? `${bytesPerSecond(device.memory_ceiling_bytes_per_s)}, as its floors were made with` : "not recorded"],
            ["Blocks discarded", `${count(device.discarded_blocks)} (${percent(discarded, 1)})`],
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
      <h2>Health, from recent measurements</h2>
      {devices.error ? (
        <ErrorState error={devices.error} retry={() => void devices.refetch()} />
      ) : devices.data && devices.data.length > 0 ? (
        <div className="columns halves">
          {devices.data.map((device) => (
            <HealthCard key={`${device.device_model} ${device.host}`} device={device} />
          ))}
        </div>
      ) : (
        <NotRecorded>{devices.isPending ? "Loading" : "Nothing has been measured yet."}</NotRecorded>
      )}
    </div>
  );
}
