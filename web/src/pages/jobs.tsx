import { useCallback, useMemo } from "react";
import { Link } from "wouter";
import { jobDefaults as defaults, useCatalog, useJobs } from "../api/queries";
import type { Job } from "../api/types";
import { burns } from "../lib/budget";
import { count, ratio } from "../lib/format";
import { useParameters } from "../lib/url";
import { Grid, type Column } from "../ui/grid";
import { Command, CopyId, Meter, Select, StateBadge, Time, VerdictStack, useNow } from "../ui/parts";
import { EmptyState, ErrorState, LoadingState } from "../ui/states";

const states = ["queued", "running", "succeeded", "failed", "cancelled"];

function BurnCell({ job, now }: { job: Job; now: number }) {
  const first = burns(job, now)[0];
  if (!first) return <span className="muted">–</span>;
  return (
    <span title={burns(job, now).map((one) => `${one.kind}: ${one.label}`).join("\n")}>
      <span className="verdict-counts">
        {first.label} <span className="muted">{first.kind}</span>
      </span>
      {Number.isFinite(first.fraction) && <Meter fraction={first.fraction} label={`${first.kind} spent`} warnAt={job.state === "running" ? 0.9 : 2} />}
    </span>
  );
}

/** What it waits for, or why it ended. */
function messageOf(job: Job): string {
  if (job.state === "queued" && job.queue_position > 0) return `number ${job.queue_position} in the queue`;
  if (job.state === "running" && job.message === "") return job.stage;
  return job.message;
}

function columnsAt(now: number): Column<Job>[] {
  return [
    {
      key: "task",
      name: "Task",
      width: "minmax(150px, 1.8fr)",
      cell: (job) => (
        <span className="two-lines">
          <Link className="cover" href={`/jobs/${job.id}`}>
            {job.task_name || job.task_digest.slice(0, 12)}
          </Link>
          <span className="muted">
            {job.target} · {job.proposer}
          </span>
        </span>
      ),
    },
    { key: "state", name: "State", width: "104px", cell: (job) => <StateBadge state={job.state} /> },
    {
      key: "best",
      name: "Best",
      width: "74px",
      align: "right",
      cell: (job) => (
        <span className={job.best_ratio_declared > 1 ? "best" : "muted"} title="Speed-up over the declared baseline">
          {ratio(job.best_ratio_declared)}
        </span>
      ),
    },
    { key: "budget", name: "Budget burnt", width: "minmax(150px, 1fr)", from: 700, cell: (job) => <BurnCell job={job} now={now} /> },
    {
      key: "candidates",
      name: "Candidates",
      width: "82px",
      align: "right",
      from: 900,
      cell: (job) => count(job.candidate_count),
    },
    { key: "verdicts", name: "Verdicts", width: "minmax(170px, 1fr)", from: 820, cell: (job) => <VerdictStack job={job} /> },
    {
      key: "message",
      name: "Message",
      width: "minmax(140px, 1.4fr)",
      from: 1040,
      cell: (job) => (
        <span className="muted clamp" title={messageOf(job)}>
          {messageOf(job)}
        </span>
      ),
    },
    { key: "id", name: "Job", width: "132px", from: 1180, cell: (job) => <CopyId id={job.id} label="job id" /> },
    { key: "created", name: "Submitted", width: "92px", align: "right", from: 440, cell: (job) => <Time ns={job.created_ns} /> },
  ];
}

export function JobsPage() {
  const [filter, setFilter] = useParameters(defaults);
  const jobs = useJobs(filter);
  const catalog = useCatalog();
  const now = useNow(5_000);
  const rows = useMemo(() => jobs.data?.pages.flatMap((page) => page.jobs) ?? [], [jobs.data]);
  const columns = useMemo(() => columnsAt(now), [now]);
  const tasks = [...new Set([...(catalog.data ?? []).map((entry) => entry.task), ...rows.map((job) => job.task_name)])].sort();
  const targets = [...new Set([...(catalog.data ?? []).map((entry) => entry.target), ...rows.map((job) => job.target)])].sort();
  const running = rows.filter((job) => job.state === "running").length;
  const queued = rows.filter((job) => job.state === "queued").length;
  const filtered = filter.state !== "" || filter.task !== "" || filter.target !== "";
  const { fetchNextPage, hasNextPage, isFetchingNextPage } = jobs;
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [fetchNextPage, hasNextPage, isFetchingNextPage]);

  return (
    <div className="page fill">
      <div className="head">
        <h1>Jobs</h1>
        <span className="muted">
          {running} running, {queued} queued
        </span>
        <span className="grow" />
        <div className="filters">
          <Select
            label="State"
            value={filter.state}
            onChange={(state) => setFilter({ state })}
            options={[{ value: "", name: "Any state" }, ...states.map((state) => ({ value: state, name: state }))]}
          />
          <Select
            label="Task"
            value={filter.task}
            onChange={(task) => setFilter({ task })}
            options={[{ value: "", name: "Any task" }, ...tasks.map((task) => ({ value: task, name: task }))]}
          />
          <Select
            label="Target"
            value={filter.target}
            onChange={(target) => setFilter({ target })}
            options={[{ value: "", name: "Any target" }, ...targets.map((target) => ({ value: target, name: target }))]}
          />
        </div>
      </div>
      {jobs.isPending ? (
        <LoadingState />
      ) : jobs.error && rows.length === 0 ? (
        <ErrorState error={jobs.error} retry={() => void jobs.refetch()} />
      ) : (
        <Grid
          label="Jobs"
          columns={columns}
          rows={rows}
          rowKey={(job) => job.id}
          rowHeight={48}
          onEnd={onEnd}
          foot={isFetchingNextPage ? "Loading more" : hasNextPage ? "More below" : rows.length > 0 ? `${count(rows.length)} jobs` : undefined}
          empty={
            filtered ? (
              <EmptyState title="No job fits">
                <button type="button" className="button" onClick={() => setFilter(defaults)}>
                  Show all jobs
                </button>
              </EmptyState>
            ) : (
              <EmptyState title="No jobs yet">
                <p>
                  Submit one: <Command text="fettle submit tasks/layernorm --target auto --candidates 100" />
                </p>
              </EmptyState>
            )
          }
        />
      )}
    </div>
  );
}
