// Event streams that survive a restart of the server, and rest while nobody looks: a browser allows
// few connections per server, so a hidden tab gives its own back.

import { useEffect, useRef, useSyncExternalStore } from "react";
import type { Job, JobEvent } from "./types";

export type Connection = "connecting" | "live" | "lost";

let connection: Connection = "connecting";
const listeners = new Set<() => void>();
function report(next: Connection) {
  if (next === connection) return;
  connection = next;
  for (const listener of listeners) listener();
}
export function useConnection(): Connection {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => connection,
  );
}

const firstPauseMs = 500;
const longestPauseMs = 8000;

interface StreamOptions {
  url: () => string;
  events: Record<string, (data: string, id: string) => void>;
  ended?: () => void; // After the event "end": nothing follows.
}

/** Opens a stream again and again until `close`; times between attempts grow. */
export function openStream(options: StreamOptions): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pause = firstPauseMs;
  let closed = false;
  const shut = () => {
    source?.close();
    source = undefined;
    clearTimeout(timer);
    timer = undefined;
  };
  const open = () => {
    shut();
    if (closed || document.visibilityState === "hidden") return;
    source = new EventSource(options.url());
    source.onopen = () => {
      pause = firstPauseMs;
      report("live");
    };
    source.onerror = () => {
      // Also the end of a stream whose server stops: the browser's own pauses are not told apart
      // from errors, so this waits itself.
      shut();
      if (closed) return;
      report("lost");
      window.dispatchEvent(new Event("fettle-check-session")); // Or the session has ended.
      timer = setTimeout(open, pause);
      pause = Math.min(pause * 2, longestPauseMs);
    };
    for (const [name, handle] of Object.entries(options.events)) {
      source.addEventListener(name, (event) => handle(event.data as string, event.lastEventId));
    }
    source.addEventListener("end", () => {
      closed = true;
      shut();
      options.ended?.();
    });
  };
  const onVisibility = () => {
    if (document.visibilityState === "hidden") shut();
    else if (!source) open();
  };
  document.addEventListener("visibilitychange", onVisibility);
  open();
  return () => {
    closed = true;
    shut();
    document.removeEventListener("visibilitychange", onVisibility);
  };
}

/** Calls `onJobs` with the open jobs, and with jobs that changed since. */
export function useJobFeed(onJobs: (jobs: Job[], all: boolean) => void): void {
  const latest = useRef(onJobs);
  latest.current = onJobs;
  useEffect(
    () =>
      openStream({
        url: () => "/api/v1/jobs/stream",
        events: {
          jobs: (data) => {
            const parsed = JSON.parse(data) as { jobs: (Job | null)[]; all: boolean };
            latest.current(
              parsed.jobs.filter((job): job is Job => job !== null),
              parsed.all,
            );
          },
        },
      }),
    [],
  );
}

const eventNames = ["state_changed", "stage_started", "candidate_judged", "variant_accepted", "note"];

/** Calls `onEvent` with each event of an open job after `after`, once each. */
export function useJobEvents(jobId: string, after: number | undefined, open: boolean, onEvent: (event: JobEvent) => void): void {
  const latest = useRef(onEvent);
  latest.current = onEvent;
  const cursor = useRef(0);
  const ready = after !== undefined && open;
  useEffect(() => {
    cursor.current = 0;
  }, [jobId]);
  useEffect(() => {
    if (!ready) return undefined;
    cursor.current = Math.max(cursor.current, after ?? 0);
    const handle = (data: string) => {
      const event = JSON.parse(data) as JobEvent;
      if (event.sequence <= cursor.current) return;
      cursor.current = event.sequence;
      latest.current(event);
    };
    return openStream({
      url: () => `/api/v1/jobs/${encodeURIComponent(jobId)}/stream?after=${cursor.current}`,
      events: Object.fromEntries(eventNames.map((name) => [name, handle])),
    });
    // `after` is only where it starts: the cursor goes on from there.
  }, [jobId, ready]);
}
