import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useCallback, useEffect } from "react";
import { Link, Route, Switch, useLocation } from "wouter";
import { ApiError, logOut, whoAmI } from "./api/client";
import { useConnection, useJobFeed } from "./api/live";
import { mergeJobs, queryClient } from "./api/queries";
import type { Job, Session } from "./api/types";
import { SessionContext } from "./api/session";
import { JobsPage } from "./pages/jobs";
import { LoginPage } from "./pages/login";
import { VariantsPage } from "./pages/variants";
import { ErrorBoundary } from "./ui/boundary";
import { ErrorState, LoadingState, NotFound } from "./ui/states";
import { ThemeButton } from "./ui/theme";

// What the list pages do not need is loaded when it is.
const JobPage = lazy(() => import("./pages/job"));
const VariantPage = lazy(() => import("./pages/variant"));
const CandidatePage = lazy(() => import("./pages/candidate"));
const ComparePage = lazy(() => import("./pages/compare"));
const RooflinePage = lazy(() => import("./pages/roofline"));
const DevicesPage = lazy(() => import("./pages/devices"));

const places = [
  { path: "/jobs", name: "Jobs" },
  { path: "/variants", name: "Variants" },
  { path: "/compare", name: "Compare" },
  { path: "/roofline", name: "Roofline" },
  { path: "/devices", name: "Devices" },
];

function Live() {
  const connection = useConnection();
  const words = { connecting: "connecting", live: "live", lost: "not connected" }[connection];
  const style = { connecting: "", live: "live-on", lost: "live-lost" }[connection];
  return (
    <span className="live" role="status" title={`Live updates: ${words}`}>
      <span className={`dot ${style}`} />
      <span className="words">{words}</span>
    </span>
  );
}

function LogOut({ role, wide }: { role: string; wide?: boolean }) {
  const [, navigate] = useLocation();
  return (
    <button
      type="button"
      className={wide ? "button plain wide-only" : "button plain"}
      title={`Logged in with role ${role}`}
      onClick={() => {
        void logOut().finally(() => {
          queryClient.clear();
          navigate("/login");
        });
      }}
    >
      Log out
    </button>
  );
}

function Shell({ role }: { role: string }) {
  const [location] = useLocation();
  const connection = useConnection();
  const here = location === "/" ? "/jobs" : location;
  useJobFeed(
    useCallback((jobs: Job[], all: boolean) => {
      mergeJobs(jobs);
      // The stream was away for a while: what ended meanwhile is not in it.
      if (all) void queryClient.invalidateQueries({ queryKey: ["jobs"] });
    }, []),
  );
  useEffect(() => {
    const place = places.find((one) => here.startsWith(one.path));
    document.title = place ? `${place.name} · fettle` : "fettle";
  }, [here]);
  return (
    <>
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <header className="top">
        <Link className="brand" href="/jobs" aria-label="fettle: jobs">
          <img src="/icon.svg" alt="" />
          <span>fettle</span>
        </Link>
        <nav className="nav" aria-label="Pages">
          {places.map((place) => (
            <Link key={place.path} href={place.path} aria-current={here.startsWith(place.path) ? "page" : undefined}>
              {place.name}
            </Link>
          ))}
        </nav>
        <div className="tools">
          <Live />
          <ThemeButton />
          <LogOut role={role} wide />
        </div>
      </header>
      {connection === "lost" && (
        <div className="banner" role="alert">
          The server does not answer. What you see may be old; this page comes back by itself.
        </div>
      )}
      <main id="main" tabIndex={-1}>
        <ErrorBoundary key={location}>
          <Suspense fallback={<LoadingState />}>
            <Switch>
              <Route path="/" component={JobsPage} />
              <Route path="/jobs" component={JobsPage} />
              <Route path="/jobs/:id">{({ id }) => <JobPage id={id} />}</Route>
              <Route path="/jobs/:id/candidates/:digest">
                {({ id, digest }) => <CandidatePage jobId={id} digest={digest} />}
              </Route>
              <Route path="/variants" component={VariantsPage} />
              <Route path="/variants/:id">{({ id }) => <VariantPage id={id} />}</Route>
              <Route path="/compare" component={ComparePage} />
              <Route path="/roofline" component={RooflinePage} />
              <Route path="/devices" component={DevicesPage} />
              <Route>
                <NotFound />
              </Route>
            </Switch>
          </Suspense>
        </ErrorBoundary>
      </main>
      <footer className="foot narrow-only muted">
        <span>Logged in with role {role}</span>
        <LogOut role={role} />
      </footer>
    </>
  );
}

export function App() {
  const [location] = useLocation();
  const session = useQuery<Session | null>({
    queryKey: ["session"],
    queryFn: whoAmI,
    staleTime: Infinity,
    enabled: location !== "/login", // Its answer could come after the login, and end it.
  });
  useEffect(() => {
    const onLoggedOut = () => {
      if (queryClient.getQueryData(["session"])) queryClient.setQueryData(["session"], null);
    };
    const onCheck = () => {
      if (queryClient.getQueryData(["session"])) void queryClient.invalidateQueries({ queryKey: ["session"] });
    };
    window.addEventListener("fettle-logged-out", onLoggedOut);
    window.addEventListener("fettle-check-session", onCheck);
    return () => {
      window.removeEventListener("fettle-logged-out", onLoggedOut);
      window.removeEventListener("fettle-check-session", onCheck);
    };
  }, []);
  const loggedOut = session.data === null || (session.error instanceof ApiError && session.error.status === 401);
  if (location === "/login" || loggedOut) {
    return <LoginPage onDone={(done) => queryClient.setQueryData(["session"], done)} />;
  }
  if (session.data) {
    return (
      <SessionContext.Provider value={session.data}>
        <Shell role={session.data.role} />
      </SessionContext.Provider>
    );
  }
  if (session.error) {
    return (
      <main>
        <ErrorState error={session.error} retry={() => void session.refetch()} />
      </main>
    );
  }
  return (
    <main>
      <LoadingState />
    </main>
  );
}
