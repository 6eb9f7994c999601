import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { get } from "../api/client";
import { useAgentCalls } from "../api/queries";
import type { AgentCall, Job } from "../api/types";
import { roundsOf, turnsOf, type Round } from "../lib/conversation";
import { count, span } from "../lib/format";
import { Time } from "./parts";
import { ErrorState, NotRecorded } from "./states";

/** A recorded conversation as plain text; what has another form, as it is. */
function Turns({ document }: { document: unknown }) {
  const turns = turnsOf(document);
  if (turns.length === 0) {
    return (
      <pre className="text" tabIndex={0}>
        {JSON.stringify(document, null, 2)}
      </pre>
    );
  }
  return (
    <ol className="turns" aria-label="Conversation with the model">
      {turns.map((turn, index) => (
        <li key={index}>
          <div className="muted">
            {turn.part !== "" && `${turn.part} · `}
            {turn.role}
          </div>
          {turn.text !== "" && (
            <pre className="text" tabIndex={0}>
              {turn.text}
            </pre>
          )}
          {turn.calls.map((call, number) => (
            <details key={number}>
              <summary>calls {call.name}</summary>
              <pre className="text" tabIndex={0}>
                {call.input}
              </pre>
            </details>
          ))}
        </li>
      ))}
    </ol>
  );
}

/** The conversation in a blob. */
export function Conversation({ blob }: { blob: string }) {
  const document = useQuery({
    queryKey: ["blob", blob],
    staleTime: Infinity,
    queryFn: ({ signal }) => get<unknown>(`/api/v1/blobs/${encodeURIComponent(blob)}`, signal),
  });
  if (document.isPending) return <div className="skeleton" />;
  if (document.error) return <ErrorState error={document.error} />;
  return <Turns document={document.data} />;
}

function CallDocuments({ jobId, sequence }: { jobId: string; sequence: number }) {
  const call = useQuery({
    queryKey: ["call", jobId, sequence],
    queryFn: async ({ signal }) => (await get<{ call: AgentCall }>(`/api/v1/jobs/${encodeURIComponent(jobId)}/calls/${sequence}`, signal)).call,
  });
  if (call.isPending) return <div className="skeleton" />;
  if (call.error) return <ErrorState error={call.error} />;
  return (
    <>
      {call.data.request !== null && <Turns document={call.data.request} />}
      {call.data.reply !== null && <Turns document={call.data.reply} />}
    </>
  );
}

const stateStyle: Record<string, string> = { answered: "win", sent: "info", failed: "bad", lost: "warn" };

function costOf(tokens: number, usd: number, deviceMs: number): string[] {
  return [tokens > 0 ? `${count(tokens)} tokens` : "", usd > 0 ? `${usd.toFixed(4)} USD` : "", deviceMs > 0 ? `${span(deviceMs)} of the device` : ""];
}

function Call({ jobId, call }: { jobId: string; call: AgentCall }) {
  const [open, setOpen] = useState(false);
  const cost = [
    ...costOf(call.tokens, call.usd, call.device_ms),
    call.ended_ns > 0 ? `took ${span((call.ended_ns - call.created_ns) / 1e6)}` : "",
  ];
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          {call.sequence} · {call.kind} <span className={`badge ${stateStyle[call.state] ?? ""}`}>{call.state}</span>{" "}
          {[call.model, ...cost].filter((one) => one !== "").join(" · ")} · <Time ns={call.created_ns} />
        </summary>
        {call.error !== "" && <p className="alert">{call.error}</p>}
        {open && <CallDocuments jobId={jobId} sequence={call.sequence} />}
      </details>
    </li>
  );
}

function RoundOfCalls({ jobId, round }: { jobId: string; round: Round }) {
  const cost = costOf(round.tokens, round.usd, round.deviceMs).filter((one) => one !== "");
  return (
    <section aria-label={`Round ${round.number}`}>
      <h3>
        Round {round.number} <span className="muted">{[`${count(round.calls.length)} ${round.calls.length === 1 ? "call" : "calls"}`, ...cost].join(", ")}</span>
      </h3>
      <ol className="turns">
        {round.calls.map((call) => (
          <Call key={call.sequence} jobId={jobId} call={call} />
        ))}
      </ol>
    </section>
  );
}

/** What the agent of a job asked and tried, round by round. */
export function JobConversation({ job }: { job: Job }) {
  const calls = useAgentCalls(job.id, job.state === "queued" || job.state === "running");
  if (calls.isPending) return <div className="skeleton" />;
  if (calls.error) return <ErrorState error={calls.error} />;
  if (calls.data.length === 0) {
    return (
      <NotRecorded>
        {job.proposer === "tuner"
          ? "This job's proposer is the tuner: it asks no model, so there is no conversation. What it tried, and by which technique, is under Candidates."
          : `No call to a model is recorded for this job (proposer ${job.proposer}). Each candidate's rationale is on its own page.`}
      </NotRecorded>
    );
  }
  return (
    <div className="columns">
      {roundsOf(calls.data).map((round) => (
        <RoundOfCalls key={round.number} jobId={job.id} round={round} />
      ))}
    </div>
  );
}
