// Small parts that all pages share.

import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import type { Job, JobState } from "../api/types";
import { absolute, age, bytes, interval, ratio, shortId, words } from "../lib/format";

/** The time now, anew every `everyMs`. */
export function useNow(everyMs = 10_000): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** "3 min ago", with the absolute time on hover and for screen readers. */
export function Time({ ns }: { ns: number }) {
  const now = useNow();
  const full = absolute(ns);
  return (
    <time title={full} dateTime={ns > 0 ? new Date(ns / 1e6).toISOString() : undefined}>
      {age(ns, now)}
    </time>
  );
}

/** A command line, broken between its words alone. */
export function Command({ text }: { text: string }) {
  return (
    <code>
      {text.split(" ").map((word, index) => (
        <span key={index}>
          {index > 0 && " "}
          <span className="nowrap">{word}</span>
        </span>
      ))}
    </code>
  );
}

export function CopyId({ id, label = "id", full = false, command = false }: { id: string; label?: string; full?: boolean; command?: boolean }) {
  const [copied, setCopied] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  useEffect(() => () => clearTimeout(timer.current), []);
  if (id === "") return <span className="muted">–</span>;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(id);
    } catch {
      return; // Not allowed here; the full id can be selected from the title.
    }
    setCopied(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setCopied(false), 1500);
  };
  return (
    <button type="button" className="copy above" title={`Copy ${label} ${id}`} onClick={() => void copy()}>
      {command ? <Command text={id} /> : <span>{full ? id : shortId(id)}</span>}
      <svg width="11" height="11" viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" strokeWidth="1.6">
        {copied ? <path d="m2 8.5 4 4 8-9" /> : <path d="M5.5 5.5h8v8h-8zM3 10.5H2.500v-8h8V3" />}
      </svg>
      <span className="sr" role="status">
        {copied ? "copied" : ""}
      </span>
    </button>
  );
}

const stateStyle: Record<JobState, string> = {
  queued: "warn",
  running: "info",
  succeeded: "win",
  failed: "bad",
  cancelled: "",
  unknown: "",
};
export function StateBadge({ state }: { state: JobState }) {
  return (
    <span className={`badge ${stateStyle[state] ?? ""}`}>
      {state === "running" && <span className="pulse" />}
      {state}
    </span>
  );
}

const verdictStyle: Record<string, string> = {
  WIN: "win",
  NO_WIN: "",
  AMBIGUOUS: "warn",
  UNMEASURABLE: "warn",
  UNSUPPORTED_SHAPE: "warn",
};
export function VerdictBadge({ verdict }: { verdict: string }) {
  if (verdict === "") return <span className="badge info">under way</span>;
  return <span className={`badge ${verdictStyle[verdict] ?? "bad"}`}>{words(verdict)}</span>;
}
export function StatusBadge({ status }: { status: string }) {
  const style = { accepted: "win", superseded: "", demoted: "bad" }[status] ?? "";
  return <span className={`badge ${style}`}>{status}</span>;
}

/** A speed-up with its interval, drawn on a scale that all rows of a list share. */
export function SpeedUp({ value, low, high, scale }: { value: number; low: number; high: number; scale: number }) {
  const top = Math.log(Math.max(1.2, scale));
  const at = (v: number) => Math.max(0, Math.min(100, (Math.log(Math.max(v, 0.8) / 0.8) / (top - Math.log(0.8))) * 100));
  return (
    <span className="speed">
      <span className={value > 1 ? "best" : ""}>{ratio(value)}</span>
      <span className="interval" title={`95 % interval ${interval(low, high)}`}>
        <svg viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">
          <line x1={at(1)} x2={at(1)} y1="1" y2="13" stroke="var(--line-strong)" strokeDasharray="2 2" vectorEffect="non-scaling-stroke" />
          <line x1={at(1)} x2={at(value)} y1="7" y2="7" stroke="var(--line-strong)" strokeWidth="1.5" vectorEffect="non-scaling-stroke" />
          <line x1={at(low)} x2={at(high)} y1="7" y2="7" stroke="var(--accent)" strokeWidth="5" vectorEffect="non-scaling-stroke" />
          <line x1={at(value)} x2={at(value)} y1="2" y2="12" stroke="var(--text)" strokeWidth="1.5" vectorEffect="non-scaling-stroke" />
        </svg>
      </span>
      <span className="sr">95 % interval {interval(low, high)}</span>
    </span>
  );
}

export function Meter({ fraction, label, warnAt = 0.9 }: { fraction: number; label: string; warnAt?: number }) {
  const bounded = Number.isFinite(fraction) ? Math.max(0, Math.min(1, fraction)) : 0;
  return (
    <div
      className={`meter ${bounded >= warnAt ? "warn" : ""}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(bounded * 100)}
    >
      <span style={{ width: `${bounded * 100}%` }} />
    </div>
  );
}

const calm = new Set(["NO_WIN", "AMBIGUOUS", "UNMEASURABLE", "UNSUPPORTED_SHAPE"]);
export function VerdictStack({ job }: { job: Job }) {
  let win = 0;
  let rest = 0;
  let bad = 0;
  for (const [verdict, count] of Object.entries(job.verdict_counts)) {
    if (verdict === "WIN") win += count;
    else if (calm.has(verdict)) rest += count;
    else bad += count;
  }
  if (win + rest + bad === 0) return <span className="muted">–</span>;
  const title = Object.entries(job.verdict_counts)
    .map(([verdict, count]) => `${count} ${words(verdict)}`)
    .join(", ");
  return (
    <span title={title}>
      <span className="verdict-counts">
        <span className={win > 0 ? "best" : "muted"}>{win} won</span> · {rest} not · <span>{bad} failed</span>
      </span>
      <span className="stack" aria-hidden="true">
        {win > 0 && <span className="win" style={{ flexGrow: win }} />}
        {rest > 0 && <span className="rest" style={{ flexGrow: rest }} />}
        {bad > 0 && <span className="bad" style={{ flexGrow: bad }} />}
      </span>
    </span>
  );
}

export function Tile({ label, children, note, small }: { label: string; children: ReactNode; note?: ReactNode; small?: boolean }) {
  return (
    <div className="tile">
      <div className="label">{label}</div>
      <div className={small ? "value small" : "value"}>{children}</div>
      {note !== undefined && <div className="note">{note}</div>}
    </div>
  );
}

export function Tabs<T extends string>({ tabs, current, onChange, label }: {
  tabs: { key: T; name: string }[];
  current: T;
  onChange: (key: T) => void;
  label: string;
}) {
  const base = useId();
  const list = useRef<HTMLDivElement>(null);
  // On a phone not all fit: the chosen one is brought into sight, the page stays where it is.
  useEffect(() => {
    const chosen = list.current?.querySelector<HTMLElement>(`[data-key="${current}"]`);
    if (!list.current || !chosen) return;
    const left = chosen.offsetLeft - list.current.offsetLeft;
    const right = left + chosen.offsetWidth;
    if (left < list.current.scrollLeft) list.current.scrollLeft = left;
    else if (right > list.current.scrollLeft + list.current.clientWidth) list.current.scrollLeft = right - list.current.clientWidth;
  }, [current]);
  const move = (by: number) => {
    const index = tabs.findIndex((tab) => tab.key === current);
    const next = tabs[(index + by + tabs.length) % tabs.length]!;
    onChange(next.key);
    list.current?.querySelector<HTMLButtonElement>(`[data-key="${next.key}"]`)?.focus();
  };
  return (
    <div
      className="tabs"
      role="tablist"
      aria-label={label}
      ref={list}
      onKeyDown={(event) => {
        if (event.key === "ArrowRight") move(1);
        else if (event.key === "ArrowLeft") move(-1);
        else return;
        event.preventDefault();
      }}
    >
      {tabs.map((tab) => (
        <button
          key={tab.key}
          id={`${base}-${tab.key}`}
          data-key={tab.key}
          type="button"
          role="tab"
          aria-selected={tab.key === current}
          tabIndex={tab.key === current ? 0 : -1}
          onClick={() => onChange(tab.key)}
        >
          {tab.name}
        </button>
      ))}
    </div>
  );
}

export function Select({ label, value, onChange, options }: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  options: { value: string; name: string }[];
}) {
  // A value from the address that is not (yet) among the options stays visible.
  const known = options.some((option) => option.value === value);
  return (
    <select className="select" aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      {!known && <option value={value}>{value}</option>}
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.name}
        </option>
      ))}
    </select>
  );
}

/** A search box that tells what was typed once typing rests. */
export function SearchBox({ value, onChange, label }: { value: string; onChange: (value: string) => void; label: string }) {
  const [text, setText] = useState(value);
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) {
      sent.current = value;
      setText(value);
    }
  }, [value]);
  useEffect(() => {
    if (text === sent.current) return undefined;
    const timer = setTimeout(() => {
      sent.current = text;
      onChange(text);
    }, 250);
    return () => clearTimeout(timer);
  }, [text, onChange]);
  return (
    <input
      className="input search"
      type="search"
      aria-label={label}
      placeholder={label}
      value={text}
      maxLength={120}
      onChange={(event) => setText(event.target.value)}
    />
  );
}

export function Card({ title, actions, children, flush }: { title: ReactNode; actions?: ReactNode; children: ReactNode; flush?: boolean }) {
  return (
    <section className="card">
      <header>
        <h2 className="grow">{title}</h2>
        {actions}
      </header>
      {flush ? children : <div className="body">{children}</div>}
    </section>
  );
}

/** Names and values of an object's plain members. */
export function Facts({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <dl className="facts">
      {rows.map(([name, value]) => (
        <div key={name} style={{ display: "contents" }}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function plainRows(object: Record<string, unknown> | null | undefined): [string, string][] {
  return Object.entries(object ?? {})
    .filter(([, value]) => value !== null && value !== "" && typeof value !== "object")
    .map(([name, value]) => {
      const size = name.endsWith("_bytes") && typeof value === "number";
      return [words(size ? name.slice(0, -"_bytes".length) : name), size ? bytes(value) : String(value)];
    });
}
