import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { ApiError, post } from "../api/client";
import { useJobEvents } from "../api/live";
import { mergeJobs, queryClient, useJob, useRecentEvents } from "../api/queries";
import { useMayOperate } from "../api/session";
import { useTimeline } from "../api/timeline";
import type { Job, JobEvent } from "../api/types";
import { burns } from "../lib/budget";
import { absolute, count, dash, interval, ratio, span, values, words } from "../lib/format";
import type { Point } from "../lib/timeline";
import { useParameters } from "../lib/url";
import { JobConversation } from "../ui/conversation";
import { Grid, type Column } from "../ui/grid";
import { Card, CopyId, Facts, Meter, Select, StateBadge, Tabs, Tile, Time, VerdictBadge, useNow } from "../ui/parts";
import { ErrorState, LoadingState, NotRecorded } from "../ui/states";
import { TimelinePlot } from "../plots/timeline-plot";

const Tree = lazy(() => import("../plots/tree"));

const defaults = { tab: "candidates", verdict: "", by: "ordinal", order: "newest" };
type Tab = "candidates" | "tree" | "conversation" | "events" | "about";
const tabs: { key: Tab; name: string }[] = [
  { key: "candidates", name: "Candidates" },
  { key: "tree", name: "Tree of parents" },
  { key: "conversation", name: "Conversation" },
  { key: "events", name: "Events" },
  { key: "about", name: "About" },
];
const eventsKept = 300;

function Actions({ job }: { job: Job }) {
  const mayOperate = useMayOperate();
  const [asking, setAsking] = useState(false);
  const action = useMutation({
    mutationFn: async (what: "cancel" | "resume") => {
      const more = what === "resume" && job.budget.candidates > 0 ? { budget: { candidates: job.budget.candidates + Math.max(job.spent.candidates, 10) } } : {};
      return (await post<{ job: Job }>(`/api/v1/jobs/${encodeURIComponent(job.id)}/${what}`, more)).job;
    },
    onSuccess: (next) => {
      mergeJobs([next]);
      void queryClient.invalidateQueries({ queryKey: ["jobs"] });
    },
    onSettled: () => setAsking(false),
  });
  const open = job.state === "queued" || job.state === "running";
  if (!mayOperate) return null;
  return (
    <>
      {action.error && (
        <span className="alert" role="alert">
          {action.error instanceof ApiError ? action.error.message : String(action.error)}
        </span>
      )}
      {open && !asking && (
        <button type="button" className="button danger" onClick={() => setAsking(true)}>
          Cancel job
        </button>
      )}
      {open && asking && (
        <>
          <button type="button" className="button danger" autoFocus disabled={action.isPending} onClick={() => action.mutate("cancel")}>
            {action.isPending ? "Cancelling" : "Yes, cancel it"}
          </button>
          <button type="button" className="button plain" onClick={() => setAsking(false)}>
            No
          </button>
        </>
      )}
      {!open && (
        <button
          type="button"
          className="button"
          disabled={action.isPending}
          title={job.budget.candidates > 0 ? "With a larger budget of candidates" : "With the budget it has"}
          onClick={() => action.mutate("resume")}
        >
          {action.isPending ? "Resuming" : "Resume"}
        </button>
      )}
    </>
  );
}

function EventText({ event }: { event: JobEvent }) {
  if (event.state_changed) {
    return (
      <>
        is now <b>{event.state_changed.state}</b> <span className="muted">{event.state_changed.message}</span>
      </>
    );
  }
  if (event.stage_started) {
    return (
      <>
        stage <b>{event.stage_started.stage}</b> <span className="muted">{event.stage_started.message}</span>
      </>
    );
  }
  if (event.candidate_judged) {
    const one = event.candidate_judged;
    return (
      <>
        <Link href={`/jobs/${event.job_id}/candidates/${one.candidate_digest.slice(0, 16)}`}>#{one.ordinal}</Link> <VerdictBadge verdict={one.verdict} />{" "}
        {one.ratio > 0 ? ratio(one.ratio) : ""} <span className="mono">{values(one.values)}</span>{" "}
        <span className="muted">{one.message || words(one.reason_code)}</span>
      </>
    );
  }
  if (event.variant_accepted) {
    const one = event.variant_accepted;
    return (
      <>
        accepted <Link href={`/variants/${one.variant_id}`}>{one.variant_id}</Link> <b className="best">{ratio(one.ratio)}</b>{" "}
        <span className="muted">{interval(one.ratio_low, one.ratio_high)}</span>
      </>
    );
  }
  if (event.note) {
    return (
      <>
        {words(event.note.code)} <span className="muted">{event.note.text}</span>
      </>
    );
  }
  return <span className="muted">an event that this page does not know</span>;
}

function candidateColumns(jobId: string): Column<Point>[] {
  return [
    {
      key: "ordinal",
      name: "#",
      width: "64px",
      cell: (point) => (
        <Link className="cover" href={`/jobs/${jobId}/candidates/${point.digest}`}>
          {point.ordinal}
        </Link>
      ),
    },
    { key: "verdict", name: "Verdict", width: "124px", cell: (point) => <VerdictBadge verdict={point.verdict} /> },
    {
      key: "ratio",
      name: "Speed-up",
      width: "76px",
      align: "right",
      cell: (point) => <span className={point.verdict === "WIN" ? "best" : ""}>{ratio(point.ratio)}</span>,
    },
    { key: "interval", name: "95 % interval", width: "104px", from: 520, cell: (point) => <span className="muted">{interval(point.low, point.high)}</span> },
    { key: "reason", name: "Reason", width: "minmax(110px, 1.5fr)", from: 420, cell: (point) => words(point.reason) || dash },
    { key: "technique", name: "Technique", width: "minmax(90px, 1fr)", from: 760, cell: (point) => point.technique || dash },
    { key: "parent", name: "Parent", width: "64px", align: "right", from: 640, cell: (point) => (point.parent > 0 ? `#${point.parent}` : dash) },
    { key: "judged", name: "Judged", width: "92px", align: "right", from: 480, cell: (point) => <Time ns={point.judgedMs * 1e6} /> },
  ];
}

export default function JobPage({ id }: { id: string }) {
  const [view, setView] = useParameters(defaults);
  const [, navigate] = useLocation();
  const job = useJob(id);
  const timeline = useTimeline(id);
  const now = useNow(2_000);
  const recent = useRecentEvents(id, job.data?.last_sequence, eventsKept);
  const [live, setLive] = useState<JobEvent[]>([]);
  const { refresh } = timeline;

  useJobEvents(
    id,
    recent.data === undefined ? undefined : (recent.data[recent.data.length - 1]?.sequence ?? 0),
    job.data?.state === "queued" || job.data?.state === "running",
    useCallback(
      (event: JobEvent) => {
        setLive((before) => [...before.slice(1 - eventsKept), event]);
        refresh();
        if (event.state_changed) void queryClient.invalidateQueries({ queryKey: ["job", id] });
        if (event.variant_accepted) void queryClient.invalidateQueries({ queryKey: ["variants"] });
      },
      [id, refresh],
    ),
  );

  const events = useMemo(() => {
    const bySequence = new Map<number, JobEvent>();
    for (const event of [...(recent.data ?? []), ...live]) if (event.job_id === id) bySequence.set(event.sequence, event);
    return [...bySequence.values()].sort((a, b) => b.sequence - a.sequence).slice(0, eventsKept);
  }, [recent.data, live, id]);
  const shown = useMemo(() => {
    const some = view.verdict === "" ? timeline.points : timeline.points.filter((point) => point.verdict === (view.verdict === "open" ? "" : view.verdict));
    if (view.order === "fastest") return [...some].sort((a, b) => b.ratio - a.ratio || a.ordinal - b.ordinal);
    return view.order === "oldest" ? some : [...some].reverse();
  }, [timeline.points, view.verdict, view.order]);
  const columns = useMemo(() => candidateColumns(id), [id]);

  if (job.isPending) return <LoadingState />;
  if (!job.data) return <ErrorState error={job.error} retry={() => void job.refetch()} />;
  const it = job.data;
  const open = it.candidate_count - Object.values(it.verdict_counts).reduce((sum, value) => sum + value, 0);
  const spent = burns(it, now);
  const tab = (tabs.some((one) => one.key === view.tab) ? view.tab : "candidates") as Tab;
  return (
    <div className="page">
      <div className="head">
        <h1>{it.task_name || it.task_digest.slice(0, 12)}</h1>
        <StateBadge state={it.state} />
        <span className="muted">
          {it.target} · {it.proposer}
        </span>
        <CopyId id={it.id} label="job id" full />
        <span className="grow" />
        <Actions job={it} />
      </div>
      {(it.message !== "" || it.queue_position > 0) && (
        <p className="muted">
          {it.queue_position > 0 ? `Number ${it.queue_position} in the queue. ` : ""}
          {it.message}
        </p>
      )}
      <div className="tiles">
        <Tile label="Best, over declared" note={it.best_variant_id ? <Link href={`/variants/${it.best_variant_id}`}>the variant</Link> : "no variant yet"}>
          <span className={it.best_ratio_declared > 1 ? "best" : ""}>{ratio(it.best_ratio_declared)}</span>
        </Tile>
        <Tile label="Over the tuned baseline" note={it.best_ratio_tuned > 0 ? "its own tunables fitted" : "not known"}>
          {ratio(it.best_ratio_tuned)}
        </Tile>
        <Tile label="Proposed" note={it.space_size !== "" ? `of ${it.space_size} configurations` : undefined}>
          {count(it.candidate_count)}
        </Tile>
        {spent.map((burn) => (
          <Tile
            key={burn.kind}
            label={`Budget: ${burn.kind}`}
            small
            note={Number.isFinite(burn.fraction) ? <Meter fraction={burn.fraction} label={`${burn.kind} spent`} warnAt={it.state === "running" ? 0.9 : 2} /> : "no limit"}
          >
            {burn.label}
          </Tile>
        ))}
      </div>
      <Card
        title="Speed-up of candidates"
        actions={
          <Select
            label="Horizontal axis"
            value={view.by}
            onChange={(by) => setView({ by })}
            options={[
              { value: "ordinal", name: "by order" },
              { value: "time", name: "over time" },
            ]}
          />
        }
      >
        {timeline.points.some((point) => point.verdict !== "") ? (
          <TimelinePlot
            points={timeline.points}
            by={view.by === "time" ? "time" : "ordinal"}
            onChoose={(point) => navigate(`/jobs/${id}/candidates/${point.digest}`)}
          />
        ) : timeline.error ? (
          <ErrorState error={timeline.error} retry={refresh} />
        ) : (
          <NotRecorded>{it.state === "queued" || it.state === "running" ? "No candidate has been judged yet." : "No candidate was judged."}</NotRecorded>
        )}
      </Card>
      <section className="card">
        <Tabs label="About this job" tabs={tabs} current={tab} onChange={(key) => setView({ tab: key })} />
        <div className="body" role="tabpanel" aria-label={tabs.find((one) => one.key === tab)?.name}>
          {tab === "candidates" && (
            <div className="columns">
              <div className="head">
                <div className="chips" role="group" aria-label="Filter by verdict">
                  <button type="button" className="chip" aria-pressed={view.verdict === ""} onClick={() => setView({ verdict: "" })}>
                    all <b>{count(it.candidate_count)}</b>
                  </button>
                  {Object.entries(it.verdict_counts).map(([verdict, number]) => (
                    <button key={verdict} type="button" className="chip" aria-pressed={view.verdict === verdict} onClick={() => setView({ verdict })}>
                      {words(verdict)} <b>{count(number)}</b>
                    </button>
                  ))}
                  {open > 0 && (
                    <button type="button" className="chip" aria-pressed={view.verdict === "open"} onClick={() => setView({ verdict: "open" })}>
                      under way <b>{count(open)}</b>
                    </button>
                  )}
                </div>
                <span className="grow" />
                <Select
                  label="Order"
                  value={view.order}
                  onChange={(order) => setView({ order })}
                  options={[
                    { value: "newest", name: "Newest first" },
                    { value: "oldest", name: "Oldest first" },
                    { value: "fastest", name: "Fastest first" },
                  ]}
                />
              </div>
              <div style={{ height: Math.min(460, 40 + Math.max(shown.length, 4) * 34), display: "flex" }}>
                <Grid
                  label="Candidates"
                  columns={columns}
                  rows={shown}
                  rowKey={(point) => String(point.ordinal)}
                  rowHeight={34}
                  empty={<p className="grid-foot">{timeline.complete ? "No candidate fits." : "Loading"}</p>}
                />
              </div>
              {!timeline.complete && timeline.points.length > 0 && <p className="muted">{count(timeline.points.length)} candidates read so far.</p>}
            </div>
          )}
          {tab === "tree" && (
            <Suspense fallback={<div className="skeleton" />}>
              <Tree points={timeline.points} jobId={id} />
            </Suspense>
          )}
          {tab === "conversation" && <JobConversation job={it} />}
          {tab === "events" &&
            (events.length === 0 ? (
              <NotRecorded>No events yet.</NotRecorded>
            ) : (
              <ol className="events" tabIndex={0} aria-label="Events, newest first" reversed>
                {events.map((event) => (
                  <li key={event.sequence}>
                    <span className="muted" title={absolute(event.time_ns)}>
                      <Time ns={event.time_ns} />
                    </span>
                    <span>
                      <EventText event={event} />
                    </span>
                  </li>
                ))}
              </ol>
            ))}
          {tab === "about" && (
            <Facts
              rows={[
                ["Job", <CopyId key="id" id={it.id} full />],
                ["Task", <CopyId key="task" id={it.task_digest} label="task digest" full />],
                ["Target", it.target],
                ["Device", it.device_model || "not chosen yet"],
                ["Toolchain", it.toolchain || "not chosen yet"],
                ["Proposer", it.proposer],
                ["Seed", <CopyId key="seed" id={it.seed} label="seed" full />],
                ["Stage", it.stage],
                ["Judged against", it.tuned_variant_id ? <Link key="tuned" href={`/variants/${it.tuned_variant_id}`}>{`tuned baseline ${it.tuned_variant_id}`}</Link> : "the declared baseline"],
                ["Submitted", absolute(it.created_ns)],
                ["Started", absolute(it.started_ns)],
                ["Ended", absolute(it.finished_ns)],
                ["Took", it.started_ns > 0 ? span(((it.finished_ns || now * 1e6) - it.started_ns) / 1e6) : dash],
                ["Variants", <Link key="variants" href={`/variants?job=${it.id}&status=`}>of this job</Link>],
              ]}
            />
          )}
        </div>
      </section>
    </div>
  );
}
