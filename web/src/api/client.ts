// Calls of /api/v1. The browser's cache revalidates with ETags by itself.

import type { Session } from "./types";

export class ApiError extends Error {
  constructor(
    readonly status: number, // 0: the server was not reached.
    readonly code: string,
    message: string,
    readonly field: string = "",
  ) {
    super(message);
  }
  get unreachable(): boolean {
    return this.status === 0;
  }
}

let csrf = "";

async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET") headers["X-Fettle-CSRF"] = csrf;
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      headers,
      credentials: "same-origin",
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiError(0, "UNAVAILABLE", "The server does not answer.");
  }
  const text = await response.text();
  let json: unknown;
  try {
    json = text === "" ? {} : JSON.parse(text);
  } catch {
    throw new ApiError(response.status, "INTERNAL", "The server's answer is not JSON.");
  }
  if (response.ok) return json as T;
  const error = (json as { error?: { code?: string; message?: string; field?: string } }).error ?? {};
  if (response.status === 401) window.dispatchEvent(new Event("fettle-logged-out"));
  throw new ApiError(
    response.status,
    error.code ?? "UNKNOWN",
    error.message ?? `The server answered ${response.status}.`,
    error.field ?? "",
  );
}

export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return call<T>("GET", path, undefined, signal);
}
export function post<T>(path: string, body: unknown = {}): Promise<T> {
  return call<T>("POST", path, body);
}

function keep(session: Session): Session {
  csrf = session.csrf;
  return session;
}
export async function whoAmI(): Promise<Session> {
  return keep(await get<Session>("/api/v1/session"));
}
export async function logIn(token: string): Promise<Session> {
  return keep(await post<Session>("/api/v1/session", { token }));
}
export async function logOut(): Promise<void> {
  await call("DELETE", "/api/v1/session");
  csrf = "";
}

/** A path with its parameters; empty ones are left out. */
export function withQuery(path: string, parameters: Record<string, string | number | undefined>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}
