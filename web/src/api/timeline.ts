// A job's candidates, read page by page and kept up with its events.

import { useCallback, useEffect, useRef, useState } from "react";
import { mergePoints, parsePage, resumeAfter, type Point, type TimelinePage } from "../lib/timeline";
import { get, withQuery } from "./client";

const pauseMs = 700; // Between two readings while events come in.

export interface LiveTimeline {
  points: Point[];
  complete: boolean; // All that there was has been read once.
  error: Error | null;
  refresh: () => void; // Reads what is new, soon.
}

export function useTimeline(jobId: string): LiveTimeline {
  const [points, setPoints] = useState<Point[]>([]);
  const [complete, setComplete] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const current = useRef<Point[]>([]);
  const reading = useRef(false);
  const again = useRef(false);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const alive = useRef<AbortController>();
  const schedule = useRef(() => {});

  const read = useCallback(async () => {
    if (reading.current) {
      again.current = true;
      return;
    }
    const controller = alive.current;
    if (!controller) return;
    reading.current = true;
    try {
      let after = resumeAfter(current.current);
      for (;;) {
        const page = await get<TimelinePage>(
          withQuery(`/api/v1/jobs/${encodeURIComponent(jobId)}/timeline`, { after, limit: 5000 }),
          controller.signal,
        );
        if (controller.signal.aborted) return;
        current.current = mergePoints(current.current, parsePage(page));
        setPoints(current.current);
        setError(null);
        if (page.next_cursor === "") break;
        after = Number(page.next_cursor);
      }
      setComplete(true);
    } catch (cause) {
      if (controller.signal.aborted) return;
      setError(cause instanceof Error ? cause : new Error(String(cause)));
    } finally {
      reading.current = false;
      if (again.current && !controller.signal.aborted) {
        again.current = false;
        schedule.current();
      }
    }
  }, [jobId]);

  useEffect(() => {
    const controller = new AbortController();
    alive.current = controller;
    current.current = [];
    reading.current = false;
    setPoints([]);
    setComplete(false);
    void read();
    return () => {
      controller.abort();
      clearTimeout(timer.current);
      timer.current = undefined;
    };
  }, [read]);

  schedule.current = () => {
    if (timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      void read();
    }, pauseMs);
  };
  const refresh = useCallback(() => schedule.current(), []);
  return { points, complete, error, refresh };
}
