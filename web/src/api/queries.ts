// What pages read, kept by one cache.

import { QueryClient, infiniteQueryOptions, queryOptions, useInfiniteQuery, useQuery, type InfiniteData } from "@tanstack/react-query";
import { readParameters } from "../lib/url";
import { ApiError, get, withQuery } from "./client";
import type {
  AgentCall,
  Candidate,
  CatalogEntry,
  DeviceHealth,
  DeviceReport,
  FactSummary,
  Job,
  JobEvent,
  Variant,
  VariantCase,
  Worker,
} from "./types";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (failures, error) =>
        error instanceof ApiError && (error.unreachable || error.status >= 500 || error.status === 429) && failures < 4,
      retryDelay: (attempt) => Math.min(500 * 2 ** attempt, 5_000),
      refetchOnWindowFocus: true,
    },
  },
});

export interface JobPage {
  jobs: Job[];
  next_cursor: string;
}
export interface VariantPage {
  variants: Variant[];
  next_cursor: string;
  total?: number;
}

const encode = encodeURIComponent;

export interface JobFilter {
  state: string;
  task: string;
  target: string;
}
export const jobDefaults: JobFilter & Record<string, string> = { state: "", task: "", target: "" };
function jobsOf(filter: JobFilter) {
  return infiniteQueryOptions({
    queryKey: ["jobs", filter],
    queryFn: ({ pageParam, signal }) =>
      get<JobPage>(withQuery("/api/v1/jobs", { ...filter, limit: 100, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor || undefined,
  });
}
export function useJobs(filter: JobFilter) {
  return useInfiniteQuery(jobsOf(filter));
}

/** Puts jobs of the feed into every list and page that shows them; lists that lack one are read again. */
export function mergeJobs(jobs: Job[]): void {
  for (const job of jobs) queryClient.setQueryData(["job", job.id], job);
  for (const [key, data] of queryClient.getQueriesData<InfiniteData<JobPage>>({ queryKey: ["jobs"] })) {
    if (!data) continue;
    const filter = key[1] as JobFilter;
    const fits = (job: Job) =>
      (filter.state === "" || filter.state === job.state) &&
      (filter.task === "" || filter.task === job.task_name) &&
      (filter.target === "" || filter.target === job.target);
    const fresh = new Map(jobs.map((job) => [job.id, job]));
    const pages = data.pages.map((page) => ({
      ...page,
      jobs: page.jobs
        .map((job) => {
          const next = fresh.get(job.id);
          fresh.delete(job.id);
          return next ?? job;
        })
        .filter(fits),
    }));
    queryClient.setQueryData(key, { ...data, pages });
    if ([...fresh.values()].some(fits)) void queryClient.invalidateQueries({ queryKey: key, exact: true });
  }
}

export function useJob(id: string) {
  return useQuery({
    queryKey: ["job", id],
    queryFn: async ({ signal }) => (await get<{ job: Job }>(`/api/v1/jobs/${encode(id)}`, signal)).job,
  });
}

export function useRecentEvents(id: string, lastSequence: number | undefined, count: number) {
  const after = Math.max(0, (lastSequence ?? 0) - count);
  return useQuery({
    queryKey: ["events", id, count],
    enabled: lastSequence !== undefined,
    staleTime: Infinity, // The stream goes on from its end,
    gcTime: 0, // and a page that comes back reads it anew.
    queryFn: async ({ signal }) =>
      (await get<{ events: JobEvent[] }>(withQuery(`/api/v1/jobs/${encode(id)}/events`, { after, limit: count }), signal)).events,
  });
}

export function useAgentCalls(id: string, live: boolean) {
  return useQuery({
    queryKey: ["calls", id],
    refetchInterval: live ? 5_000 : false,
    queryFn: async ({ signal }) => {
      const all: AgentCall[] = [];
      let after = "";
      do {
        const page = await get<{ calls: AgentCall[]; next_cursor: string }>(
          withQuery(`/api/v1/jobs/${encode(id)}/calls`, { after, limit: 500 }),
          signal,
        );
        all.push(...page.calls);
        after = page.next_cursor;
      } while (after !== "");
      return all;
    },
  });
}

export function useCandidate(jobId: string, digest: string) {
  return useQuery({
    queryKey: ["candidate", jobId, digest],
    enabled: digest !== "" && jobId !== "",
    queryFn: async ({ signal }) =>
      (await get<{ candidate: Candidate }>(`/api/v1/jobs/${encode(jobId)}/candidates/${encode(digest)}`, signal)).candidate,
  });
}

export interface VariantFilter {
  task: string;
  target: string;
  device: string;
  status: string;
  job: string;
  q: string;
  sort: string;
}
export const variantDefaults: VariantFilter & Record<string, string> = { task: "", target: "", device: "", status: "accepted", job: "", q: "", sort: "-accepted" };
function variantsOf(filter: VariantFilter) {
  return infiniteQueryOptions({
    queryKey: ["variants", filter],
    queryFn: ({ pageParam, signal }) =>
      get<VariantPage>(withQuery("/api/v1/variants", { ...filter, limit: 100, cursor: pageParam }), signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor || undefined,
  });
}
export function useVariants(filter: VariantFilter) {
  return useInfiniteQuery({ ...variantsOf(filter), placeholderData: (previous) => previous });
}

export function useVariant(id: string) {
  return useQuery({
    queryKey: ["variant", id],
    enabled: id !== "",
    staleTime: 60_000,
    queryFn: async ({ signal }) => (await get<{ variant: Variant }>(`/api/v1/variants/${encode(id)}`, signal)).variant,
  });
}

/** The variant that a candidate became; null where it became none. */
export function useVariantOf(jobId: string, digest: string, won: boolean) {
  return useQuery<Variant | null>({
    queryKey: ["variants", "of", jobId, digest],
    enabled: won,
    queryFn: async ({ signal }) => {
      const page = await get<VariantPage>(withQuery("/api/v1/variants", { job: jobId, limit: 500 }), signal);
      return page.variants.find((one) => one.candidate_digest === digest) ?? null;
    },
  });
}

/** Facts of the variants on screen: read in one go, and kept, since they never change. */
export function useFacts(ids: string[]) {
  return useQuery<Map<string, FactSummary>>({
    queryKey: ["facts", ids],
    enabled: ids.length > 0,
    staleTime: Infinity,
    placeholderData: (previous) => previous,
    queryFn: async ({ signal }) => {
      const { facts } = await get<{ facts: FactSummary[] }>(withQuery("/api/v1/variants/facts", { ids: ids.join(",") }), signal);
      return new Map(facts.map((one) => [one.id, one]));
    },
  });
}

const catalogQuery = queryOptions({
  queryKey: ["catalog"],
  staleTime: 30_000,
  queryFn: async ({ signal }) => (await get<{ entries: CatalogEntry[] }>("/api/v1/catalog", signal)).entries,
});
export function useCatalog() {
  return useQuery(catalogQuery);
}

/** Asks for what a list page shows while it is not yet known who asks: one round trip less. */
export function prefetchList(path: string, search: string): void {
  if (path === "/variants") void queryClient.prefetchInfiniteQuery(variantsOf(readParameters(search, variantDefaults)));
  else if (path === "/jobs" || path === "/") void queryClient.prefetchInfiniteQuery(jobsOf(readParameters(search, jobDefaults)));
  else return;
  void queryClient.prefetchQuery(catalogQuery);
}

export interface CaseFilter {
  target: string;
  task: string;
  status: string;
}
export function useCases(filter: CaseFilter, enabled = true) {
  return useQuery({
    queryKey: ["cases", filter],
    enabled,
    staleTime: 30_000,
    queryFn: async ({ signal }) => {
      const all: VariantCase[] = [];
      let cursor = "";
      do {
        const page = await get<{ cases: VariantCase[]; next_cursor: string }>(
          withQuery("/api/v1/cases", { ...filter, limit: 500, cursor }),
          signal,
        );
        all.push(...page.cases);
        cursor = page.next_cursor;
      } while (cursor !== "");
      return all;
    },
  });
}

/** Devices of a target whose ceilings workers have measured. */
export function useCeilings(target: string) {
  return useQuery({
    queryKey: ["ceilings", target],
    enabled: target !== "",
    staleTime: 30_000,
    queryFn: async ({ signal }) => (await get<{ devices: DeviceReport[] }>(withQuery("/api/v1/ceilings", { target }), signal)).devices,
  });
}

export function useWorkers() {
  return useQuery({
    queryKey: ["workers"],
    refetchInterval: 5_000,
    queryFn: async ({ signal }) => (await get<{ workers: Worker[] }>("/api/v1/workers", signal)).workers,
  });
}
export function useDevices() {
  return useQuery({
    queryKey: ["devices"],
    refetchInterval: 30_000,
    queryFn: async ({ signal }) => (await get<{ devices: DeviceHealth[] }>("/api/v1/devices", signal)).devices,
  });
}
