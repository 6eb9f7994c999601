import { lazy, Suspense } from "react";
import { Link } from "wouter";
import { useCandidate, useJob, useVariantOf } from "../api/queries";
import { ratio, values, words } from "../lib/format";
import { useParameters } from "../lib/url";
import { BuildList, MeasurementTable, VerificationTable, caseNames } from "../ui/evidence";
import { Conversation } from "../ui/conversation";
import { Card, CopyId, Facts, Tabs, Tile, Time, VerdictBadge } from "../ui/parts";
import { ErrorState, LoadingState, NotRecorded } from "../ui/states";

const Source = lazy(() => import("../code/highlighted"));
const DiffView = lazy(() => import("../code/diff-view"));

const defaults = { tab: "evidence" };
type Tab = "evidence" | "source" | "diff" | "conversation" | "builds";
const tabs: { key: Tab; name: string }[] = [
  { key: "evidence", name: "Evidence" },
  { key: "source", name: "Source" },
  { key: "diff", name: "Diff with parent" },
  { key: "conversation", name: "Conversation" },
  { key: "builds", name: "Builds" },
];

export default function CandidatePage({ jobId, digest }: { jobId: string; digest: string }) {
  const [view, setView] = useParameters(defaults);
  const candidate = useCandidate(jobId, digest);
  const parent = useCandidate(jobId, view.tab === "diff" ? (candidate.data?.parent ?? "") : "");
  const job = useJob(jobId);
  const variant = useVariantOf(jobId, candidate.data?.digest ?? "", candidate.data?.verdict?.verdict === "WIN");
  if (candidate.isPending) return <LoadingState />;
  if (!candidate.data) return <ErrorState error={candidate.error} retry={() => void candidate.refetch()} />;
  const it = candidate.data;
  const tab = (tabs.some((one) => one.key === view.tab) ? view.tab : "evidence") as Tab;
  const source = it.kernel?.source ?? "";
  return (
    <div className="page">
      <div className="head">
        <h1>Candidate {it.ordinal}</h1>
        <VerdictBadge verdict={it.verdict?.verdict ?? ""} />
        <span className="muted">
          of <Link href={`/jobs/${jobId}`}>{job.data?.task_name ?? jobId}</Link>
        </span>
        <CopyId id={it.digest} label="candidate digest" />
        {variant.data && (
          <span>
            accepted as <Link href={`/variants/${variant.data.id}`}>{variant.data.id}</Link>
          </span>
        )}
      </div>
      <div className="tiles">
        <Tile label="Speed-up" note="over what it was measured against">
          {ratio(it.ratio)}
        </Tile>
        <Tile label="Reason" small note={it.verdict?.stage ? `decided at ${it.verdict.stage}` : undefined}>
          {it.verdict ? words(it.verdict.reason_code) : "under way"}
        </Tile>
        <Tile label="Values" small>
          <span className="mono">{values(it.values)}</span>
        </Tile>
        <Tile label="Proposed" small note={`${it.proposer} ${it.technique}`}>
          <Time ns={it.created_ns} />
        </Tile>
      </div>
      {it.verdict?.message && <p>{it.verdict.message}</p>}
      <Card title="Rationale">
        <div className="columns">
          {it.rationale ? <pre className="text">{it.rationale}</pre> : <NotRecorded>The proposer gave no rationale.</NotRecorded>}
          <Facts rows={[["Parent", it.parent ? <Link key="p" href={`/jobs/${jobId}/candidates/${it.parent.slice(0, 16)}`}>{it.parent.slice(0, 12)}</Link> : "none"]]} />
        </div>
      </Card>
      <section className="card">
        <Tabs label="About this candidate" tabs={tabs} current={tab} onChange={(key) => setView({ tab: key })} />
        <div className="body columns" role="tabpanel" aria-label={tabs.find((one) => one.key === tab)?.name}>
          <Suspense fallback={<div className="skeleton" />}>
            {tab === "evidence" && (
              <>
                {it.verdict?.evidence !== undefined && it.verdict.evidence !== null && (
                  <details>
                    <summary>Evidence of the verdict</summary>
                    <pre className="text" tabIndex={0}>
                      {JSON.stringify(it.verdict.evidence, null, 2)}
                    </pre>
                  </details>
                )}
                <h2>Timing</h2>
                <MeasurementTable measurement={it.measurement} cases={caseNames(it.verification)} />
                <h2>Correctness</h2>
                <VerificationTable verification={it.verification} />
              </>
            )}
            {tab === "source" && (source === "" ? <NotRecorded>No source is recorded.</NotRecorded> : <Source text={source} label="Kernel source" />)}
            {tab === "diff" &&
              (it.parent === "" ? (
                <NotRecorded>This candidate names no parent.</NotRecorded>
              ) : parent.isPending ? (
                <div className="skeleton" />
              ) : parent.data ? (
                <DiffView before={parent.data.kernel?.source ?? ""} after={source} beforeName={`parent #${parent.data.ordinal}`} afterName={`candidate #${it.ordinal}`} />
              ) : (
                <ErrorState error={parent.error} />
              ))}
            {tab === "conversation" &&
              (it.transcript ? (
                <Conversation blob={it.transcript} />
              ) : (
                <NotRecorded>No conversation is recorded for this candidate (proposer {it.proposer}).</NotRecorded>
              ))}
            {tab === "builds" && <BuildList builds={it.builds} />}
          </Suspense>
        </div>
      </section>
    </div>
  );
}
