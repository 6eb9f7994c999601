import { useEffect, useRef, useState, type FormEvent } from "react";
import { useLocation } from "wouter";
import { ApiError, logIn } from "../api/client";
import type { Session } from "../api/types";

/** Takes the secret of the login link from the address's fragment, or a token that is typed in. */
export function LoginPage({ onDone }: { onDone: (session: Session) => void }) {
  const [location, navigate] = useLocation();
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [token, setToken] = useState("");
  const tried = useRef(false);

  const enter = async (secret: string) => {
    setBusy(true);
    setError("");
    try {
      const session = await logIn(secret);
      onDone(session);
      if (location === "/login") navigate("/jobs", { replace: true });
    } catch (cause) {
      setError(
        cause instanceof ApiError && cause.status === 401
          ? "This server does not know that token. A login link holds until its server stops: use the newest one."
          : cause instanceof Error
            ? cause.message
            : String(cause),
      );
    } finally {
      setBusy(false);
    }
  };

  useEffect(() => {
    const secret = window.location.hash.slice(1);
    if (tried.current || location !== "/login" || secret === "") return;
    tried.current = true;
    // Out of the address, so that it is neither kept in the history nor copied along.
    window.history.replaceState(null, "", "/login");
    void enter(secret);
  });

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (token.trim() !== "") void enter(token.trim());
  };
  return (
    <main id="main">
      <div className="login">
        <div className="head">
          <img src="/icon.svg" alt="" width={32} height={32} />
          <h1>Log in to fettle</h1>
        </div>
        <p className="muted">
          Open the link that <code>fettle serve</code> printed when it started, or enter a token of this server.
        </p>
        {error !== "" && (
          <p className="alert" role="alert">
            {error}
          </p>
        )}
        <form onSubmit={submit}>
          <label htmlFor="token">Token</label>
          <input
            id="token"
            className="input mono"
            type="password"
            autoComplete="current-password"
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
          <button type="submit" className="button primary" disabled={busy}>
            {busy ? "Logging in" : "Log in"}
          </button>
        </form>
      </div>
    </main>
  );
}
