import type { ReactNode } from "react";
import { Link } from "wouter";
import { ApiError } from "../api/client";

export function LoadingState({ lines = 6 }: { lines?: number }) {
  return (
    <div className="page" aria-busy="true">
      <span className="sr" role="status">
        Loading
      </span>
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} className="skeleton" style={{ width: `${90 - ((index * 17) % 45)}%` }} />
      ))}
    </div>
  );
}

export function EmptyState({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="state">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function ErrorState({ error, retry }: { error: unknown; retry?: () => void }) {
  const api = error instanceof ApiError ? error : undefined;
  const title = api?.unreachable
    ? "The server does not answer"
    : api?.status === 404
      ? "Not found"
      : api?.status === 403
        ? "Not allowed"
        : "This did not work";
  const message = error instanceof Error ? error.message : String(error);
  return (
    <div className="state" role="alert">
      <h2>{title}</h2>
      <p>{message}</p>
      {api?.unreachable && (
        <p>
          Start it with <code>fettle serve</code>; jobs go on where they stopped.
        </p>
      )}
      {api?.status === 404 && (
        <p>
          <Link href="/jobs">All jobs</Link> · <Link href="/variants">all variants</Link>
        </p>
      )}
      {retry && api?.status !== 404 && (
        <button type="button" className="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** For a kind of data that this variant, device or version has none of. */
export function NotRecorded({ children }: { children: ReactNode }) {
  return <p className="quiet">{children}</p>;
}

export function NotFound() {
  return (
    <EmptyState title="There is no such page">
      <p>
        <Link href="/jobs">Back to the jobs</Link>
      </p>
    </EmptyState>
  );
}
