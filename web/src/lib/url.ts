// State that lives in the address, so that it can be linked, kept and gone back to.

import { useCallback, useMemo } from "react";
import { useLocation, useSearch } from "wouter";

/** The address's parameters over `defaults`; only those that differ are in the address. */
export function readParameters<T extends Record<string, string>>(search: string, defaults: T): T {
  const query = new URLSearchParams(search);
  const out: Record<string, string> = { ...defaults };
  for (const name of Object.keys(defaults)) {
    const value = query.get(name);
    if (value !== null) out[name] = value;
  }
  return out as T;
}

export function writeParameters<T extends Record<string, string>>(search: string, defaults: T, next: T): string {
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(next)) {
    if (value === defaults[name]) query.delete(name);
    else query.set(name, value);
  }
  return query.toString();
}

export function useParameters<T extends Record<string, string>>(
  defaults: T,
): [T, (change: Partial<T>, how?: { push?: boolean }) => void] {
  const search = useSearch();
  const [location, navigate] = useLocation();
  const current = useMemo(() => readParameters(search, defaults), [search, defaults]);
  const change = useCallback(
    (part: Partial<T>, how: { push?: boolean } = {}) => {
      const text = writeParameters(window.location.search, defaults, { ...readParameters(window.location.search, defaults), ...part });
      navigate(text === "" ? location : `${location}?${text}`, { replace: !how.push });
    },
    [defaults, location, navigate],
  );
  return [current, change];
}
