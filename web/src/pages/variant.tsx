import { lazy, Suspense, useMemo } from "react";
import { Link } from "wouter";
import { useCandidate, useVariant, useVariants } from "../api/queries";
import type { Variant } from "../api/types";
import { flatFacts, kernelsOf } from "../lib/facts";
import { absolute, dash, interval, percent, ratio, shortId, values, words } from "../lib/format";
import { useParameters } from "../lib/url";
import { Conversation } from "../ui/conversation";
import { BuildList, MeasurementTable, VerificationTable, caseNames } from "../ui/evidence";
import { Command, CopyId, Facts, Select, StatusBadge, Tabs, Tile, Time, plainRows } from "../ui/parts";
import { ErrorState, LoadingState, NotRecorded } from "../ui/states";

const Source = lazy(() => import("../code/highlighted"));
const DiffView = lazy(() => import("../code/diff-view"));

const defaults = { tab: "evidence", against: "baseline" };
type Tab = "evidence" | "source" | "diff" | "facts" | "provenance" | "reproduce";
const tabs: { key: Tab; name: string }[] = [
  { key: "evidence", name: "Evidence" },
  { key: "source", name: "Source" },
  { key: "diff", name: "Diff" },
  { key: "facts", name: "Facts" },
  { key: "provenance", name: "Provenance" },
  { key: "reproduce", name: "Reproduce" },
];

/** The source with the values in front of it, so that a diff shows both. */
function withValues(source: string | undefined, tunables: Record<string, unknown> | null | undefined): string {
  return `// values: ${values(tunables)}\n${source ?? ""}`;
}

function DiffTab({ variant, against, onAgainst }: { variant: Variant; against: string; onAgainst: (against: string) => void }) {
  const provenance = variant.provenance;
  const parentDigest = provenance?.parents?.[0] ?? "";
  const parent = useCandidate(variant.job_id, against === "parent" ? parentDigest : "");
  const other = useVariant(against.startsWith("v") ? against : "");
  const siblings = useVariants(
    useMemo(() => ({ task: variant.task_name, target: "", device: "", status: "", job: "", q: "", sort: "-accepted" }), [variant.task_name]),
  );
  const others = (siblings.data?.pages[0]?.variants ?? []).filter((one) => one.id !== variant.id);
  const after = withValues(provenance?.kernel?.source, variant.values);
  let before: string | undefined;
  let name = "";
  if (against === "baseline") {
    before = withValues(provenance?.baseline?.kernel.source, provenance?.baseline?.values);
    name = "declared baseline";
  } else if (against === "denominator") {
    before = withValues(provenance?.denominator?.kernel.source, provenance?.denominator?.values);
    name = "what it was measured against";
  } else if (against === "parent" && parent.data) {
    before = withValues(parent.data.kernel?.source, parent.data.values);
    name = `parent #${parent.data.ordinal}`;
  } else if (other.data) {
    before = withValues(other.data.provenance?.kernel?.source, other.data.values);
    name = `variant ${other.data.id}`;
  }
  const error = against === "parent" ? parent.error : other.error;
  return (
    <>
      <div className="filters">
        <label className="field">
          Against
          <Select
            label="Compare the source with"
            value={against}
            onChange={onAgainst}
            options={[
              { value: "baseline", name: "the declared baseline" },
              { value: "denominator", name: "what it was measured against" },
              ...(parentDigest ? [{ value: "parent", name: "its parent" }] : []),
              ...others.map((one) => ({ value: one.id, name: `${shortId(one.id)} · ${one.target} · ${ratio(one.ratio)} · ${one.status}` })),
            ]}
          />
        </label>
      </div>
      {before !== undefined ? (
        <DiffView before={before} after={after} beforeName={name} afterName={`variant ${variant.id}`} />
      ) : error ? (
        <ErrorState error={error} />
      ) : (
        <div className="skeleton" />
      )}
    </>
  );
}

function FactsTab({ variant }: { variant: Variant }) {
  const provenance = variant.provenance;
  // The denominator's own builds are those of the variant that it is, or of the job's candidate with its digest.
  const tuned = useVariant(provenance?.denominator?.tuned_variant ?? "");
  const candidate = useCandidate(variant.job_id, provenance?.denominator?.tuned_variant ? "" : (provenance?.denominator?.digest ?? ""));
  const after = kernelsOf(provenance?.builds);
  const was = kernelsOf(tuned.data?.provenance?.builds ?? candidate.data?.builds);
  if (after.length === 0) {
    return (
      <>
        <NotRecorded>
          No facts are recorded: a code object of target {variant.target} has none that fettle reads. Counters were not taken either.
        </NotRecorded>
        <BuildList builds={provenance?.builds} />
      </>
    );
  }
  return (
    <>
      {was.length === 0 && <NotRecorded>The baseline&apos;s own facts are not recorded: it was no candidate of this job.</NotRecorded>}
      {after.map((kernel, index) => {
        const earlier = was.find((one) => one.name === kernel.name) ?? was[index];
        const old = new Map(flatFacts(earlier).map((line) => [line.name, line.value]));
        return (
          <div key={index} className="scroll" tabIndex={0} role="region" aria-label={`Facts of ${kernel.name ?? "the kernel"}`}>
            <h3 className="mono">{kernel.name}</h3>
            <table className="plain-table">
              <thead>
                <tr>
                  <th scope="col">Fact</th>
                  <th scope="col" className="num">Before</th>
                  <th scope="col" className="num">After</th>
                </tr>
              </thead>
              <tbody>
                {flatFacts(kernel).map((line) => (
                  <tr key={line.name}>
                    <td>{words(line.name)}</td>
                    <td className="num muted">{old.get(line.name) ?? dash}</td>
                    <td className="num">{old.has(line.name) && old.get(line.name) !== line.value ? <b>{line.value}</b> : line.value}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        );
      })}
      <NotRecorded>
        Hardware counters are not kept with a variant; where its device is, <Command text={`fettle profile ${variant.id} --counters`} /> takes them.
      </NotRecorded>
      <BuildList builds={provenance?.builds} />
    </>
  );
}

function ProvenanceTab({ variant }: { variant: Variant }) {
  const p = variant.provenance;
  const candidate = useCandidate(variant.job_id, variant.candidate_digest);
  return (
    <div className="columns halves">
      <div className="columns">
        <h2>Where it comes from</h2>
        <Facts
          rows={[
            ["Job", <Link key="j" href={`/jobs/${variant.job_id}`}>{variant.job_id}</Link>],
            ["Candidate", <Link key="c" href={`/jobs/${variant.job_id}/candidates/${variant.candidate_digest.slice(0, 16)}`}>{shortId(variant.candidate_digest)}</Link>],
            ["Task digest", <CopyId key="t" id={variant.task_digest} label="task digest" />],
            ["Parents", (p?.parents ?? []).length === 0 ? "none" : (p?.parents ?? []).map((digest, index) => (
                    <span key={digest}>
                      {index > 0 && " ← "}
                      <Link href={`/jobs/${variant.job_id}/candidates/${digest.slice(0, 16)}`}>{shortId(digest)}</Link>
                    </span>
                  ))],
            ["Replaces", p?.variant?.supersedes ? <Link key="s" href={`/variants/${p.variant.supersedes}`}>{p.variant.supersedes}</Link> : "no earlier variant"],
            ["Proposer", `${p?.proposer?.name ?? dash} ${p?.proposer?.technique ?? ""}`],
            ["Accepted", absolute(variant.accepted_ns)],
            ["fettle", p?.fettle_version ?? dash],
          ]}
        />
        <h2>Rationale</h2>
        {p?.proposer?.rationale ? <pre className="text">{p.proposer.rationale}</pre> : <NotRecorded>The proposer gave no rationale.</NotRecorded>}
        <h2>Conversation</h2>
        {candidate.data?.transcript ? (
          <Conversation blob={candidate.data.transcript} />
        ) : (
          <NotRecorded>No conversation with a model is recorded for this variant.</NotRecorded>
        )}
      </div>
      <div className="columns">
        <h2>Device</h2>
        <Facts rows={plainRows(p?.device)} />
        <h2>Environment</h2>
        <Facts rows={[["toolchain", p?.toolchain ?? dash], ...plainRows(p?.environment)]} />
        <h2>Confirmation</h2>
        <Facts rows={plainRows(p?.confirmation)} />
        <details>
          <summary>The whole document</summary>
          <pre className="text" tabIndex={0}>
            {JSON.stringify(p, (key, value: unknown) => (key === "blocks" ? "left out here; under /api/v1" : value), 2)}
          </pre>
        </details>
      </div>
    </div>
  );
}

function ReproduceTab({ variant }: { variant: Variant }) {
  const commands = [
    `fettle show ${variant.id} --source`,
    `fettle export ${variant.id} --out ./${variant.task_name}-${variant.id}`,
    `fettle verify ./${variant.task_name}-${variant.id} --rerun`,
  ];
  return (
    <>
      <p>
        On a machine with {variant.device_model || "such a device"} (target {variant.target}), these repeat the correctness checks and the
        measurement from the bundle alone, and append what they saw to it:
      </p>
      {commands.map((command) => (
        <p key={command}>
          <CopyId id={command} label="command" command />
        </p>
      ))}
      <p className="muted">
        The seeds of the confirmation, the compiler and its options, and the raw samples are in the bundle&apos;s evidence. Seeds are shown once
        the job has ended.
      </p>
      <p>
        <a className="button primary" href={`/api/v1/bundle?variant=${encodeURIComponent(variant.id)}`} download>
          Download the bundle
        </a>
      </p>
    </>
  );
}

export default function VariantPage({ id }: { id: string }) {
  const [view, setView] = useParameters(defaults);
  const variant = useVariant(id);
  if (variant.isPending) return <LoadingState />;
  if (!variant.data) return <ErrorState error={variant.error} retry={() => void variant.refetch()} />;
  const it = variant.data;
  const p = it.provenance;
  const tab = (tabs.some((one) => one.key === view.tab) ? view.tab : "evidence") as Tab;
  const source = p?.kernel?.source ?? "";
  return (
    <div className="page">
      <div className="head">
        <h1>{it.task_name}</h1>
        <StatusBadge status={it.status} />
        {it.is_tuned_baseline && <span className="badge info">tuned baseline</span>}
        <span className="muted">
          {it.target} · {it.device_model}
        </span>
        <CopyId id={it.id} label="variant id" full />
        <span className="grow" />
        <Link className="button" href={`/compare?ids=${it.id}`}>
          Compare
        </Link>
        <a className="button" href={`/api/v1/bundle?variant=${encodeURIComponent(it.id)}`} download>
          Download bundle
        </a>
      </div>
      {p?.variant?.status_reason && <p className="alert">{p.variant.status_reason}</p>}
      <div className="tiles">
        <Tile label="Speed-up, confirmed" note={`95 % interval ${interval(it.ratio_low, it.ratio_high)}`}>
          <span className="best">{ratio(it.ratio)}</span>
        </Tile>
        <Tile label="Over the declared baseline" note={p?.denominator?.tuned_variant ? "a product of two measurements" : "what runs in production today"}>
          {ratio(it.ratio_declared)}
        </Tile>
        <Tile label="Of the roofline" note="of the device's own measured ceilings">
          {it.roofline_fraction > 0 ? percent(it.roofline_fraction) : "not known"}
        </Tile>
        <Tile label="Values" small>
          <span className="mono">{values(it.values)}</span>
        </Tile>
        <Tile label="Accepted" small note={absolute(it.accepted_ns)}>
          <Time ns={it.accepted_ns} />
        </Tile>
      </div>
      <section className="card">
        <Tabs label="About this variant" tabs={tabs} current={tab} onChange={(key) => setView({ tab: key })} />
        <div className="body columns" role="tabpanel" aria-label={tabs.find((one) => one.key === tab)?.name}>
          <Suspense fallback={<div className="skeleton" />}>
            {tab === "evidence" && (
              <>
                <h2>Timing, beside {it.is_tuned_baseline ? "the declared baseline" : "the baseline"}</h2>
                <MeasurementTable measurement={p?.measurement} cases={caseNames(p?.verification)} environment={p?.environment} />
                {p?.against_incumbent && (
                  <>
                    <h2>Timing, beside the variant that it replaced</h2>
                    <MeasurementTable measurement={p.against_incumbent} cases={caseNames(p.verification)} />
                  </>
                )}
                <h2>Correctness</h2>
                <VerificationTable verification={p?.verification} />
              </>
            )}
            {tab === "source" && (source === "" ? <NotRecorded>No source is recorded.</NotRecorded> : <Source text={source} label="Kernel source" />)}
            {tab === "diff" && <DiffTab variant={it} against={view.against} onAgainst={(against) => setView({ against })} />}
            {tab === "facts" && <FactsTab variant={it} />}
            {tab === "provenance" && <ProvenanceTab variant={it} />}
            {tab === "reproduce" && <ReproduceTab variant={it} />}
          </Suspense>
        </div>
      </section>
    </div>
  );
}
