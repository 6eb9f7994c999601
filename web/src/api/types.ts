// The answers of /api/v1 (server/http/schemas.json).

export interface Budget {
  candidates: number;
  wall_ms: number;
  device_ms: number;
  tokens: number;
  usd: number;
}

export type JobState = "queued" | "running" | "succeeded" | "failed" | "cancelled" | "unknown";

export interface Job {
  id: string;
  task_digest: string;
  task_name: string;
  target: string;
  proposer: string;
  state: JobState;
  message: string;
  budget: Budget;
  spent: Budget;
  candidate_count: number;
  verdict_counts: Record<string, number>;
  best_variant_id: string;
  best_ratio_declared: number;
  best_ratio_tuned: number;
  created_ns: number;
  started_ns: number;
  finished_ns: number;
  last_sequence: number;
  seed: string;
  space_size: string;
  queue_position: number;
  stage: string;
  device_model: string;
  toolchain: string;
  tuned_variant_id: string;
}

/** A question of the agent to a model, or a try of its own. */
export interface AgentCall {
  sequence: number;
  kind: string; // "model/plan", "try/compile", ...
  model: string;
  state: string; // sent, answered, failed, lost
  error: string;
  tokens: number;
  usd: number;
  device_ms: number;
  request?: unknown; // Documents; only in one call.
  reply?: unknown;
  created_ns: number;
  ended_ns: number;
}

export type Values = Record<string, unknown>;

export interface JobEvent {
  job_id: string;
  sequence: number;
  time_ns: number;
  terminal: boolean;
  state_changed?: { state: JobState; message: string; spent: Budget };
  stage_started?: { stage: string; message: string };
  candidate_judged?: {
    candidate_digest: string;
    ordinal: number;
    values: Values | null;
    verdict: string;
    stage: string;
    reason_code: string;
    message: string;
    ratio: number;
    spent: Budget;
  };
  variant_accepted?: {
    variant_id: string;
    candidate_digest: string;
    ratio: number;
    ratio_low: number;
    ratio_high: number;
    values: Values | null;
    superseded_variant_id: string;
  };
  note?: { code: string; text: string };
}

export interface Verdict {
  verdict: string;
  stage: string;
  reason_code: string;
  case?: string;
  message?: string;
  evidence?: unknown;
}

export interface Diagnostic {
  file?: string;
  line?: number;
  column?: number;
  severity?: string;
  text?: string;
}

export interface Build {
  key?: string;
  code_object?: string;
  entries?: string[];
  compiler?: string;
  cache_hit?: boolean;
  elapsed_ns?: number;
  log?: string;
  diagnostics?: Diagnostic[];
  facts?: Facts | null;
}

export interface KernelFacts {
  name?: string;
  occupancy?: Record<string, unknown>;
  instructions?: Record<string, number>;
  matrix?: Record<string, number>;
  [key: string]: unknown;
}
export interface Facts {
  format?: string;
  arch?: string;
  kernels?: KernelFacts[];
  [key: string]: unknown;
}

export interface Kernel {
  source?: string;
  headers?: Record<string, string>;
  values?: Values;
  [key: string]: unknown;
}

export interface OutputErrors {
  output: string;
  worst: number;
  rms: number;
  reference_rms: number;
  mismatches: number;
  compared: number;
  first_index?: number;
  expected?: number;
  actual?: number;
}
export interface CaseReport {
  case: string;
  describe?: string;
  passed: boolean;
  unsupported?: boolean;
  outputs: OutputErrors[];
  checks?: string[];
}
export interface Verification {
  passed: boolean;
  cases: CaseReport[];
  seeds?: string[];
  check_mode?: string;
  sanitizers?: Record<string, string>; // What compute-sanitizer's tools said, by tool; missing: none was to run.
  warnings?: string[];
  failure?: Verdict;
}

export interface TimingBlock {
  a_ns: number[];
  b_ns: number[];
  clock_mhz: number;
  power_w: number;
  temperature_c: number;
  discarded: boolean;
  discard_reason: string;
}
export interface CaseMeasurement {
  case: string;
  weight: number;
  blocks: TimingBlock[];
  block_log_ratios: number[];
  a_median_ns: number;
  b_median_ns: number;
  ratio: number;
  ratio_low: number;
  ratio_high: number;
  aa_spread: number;
  bytes_per_s: number;
  flops_per_s: number;
  roofline_fraction: number;
  floor_ns: number;
  launches_per_sample: number;
  discarded_blocks: number;
}
export interface Measurement {
  method: string;
  cases: CaseMeasurement[];
  calibration_error: number;
  device_ns: number;
  device: Record<string, unknown> | null;
}

export interface Candidate {
  digest: string;
  job_id: string;
  ordinal: number;
  parent: string;
  proposer: string;
  technique: string;
  values: Values | null;
  verdict: Verdict | null;
  ratio: number;
  source_digest: string;
  created_ns: number;
  kernel?: Kernel | null;
  verification?: Verification | null;
  measurement?: Measurement | null;
  builds?: Build[] | null;
  rationale?: string;
  transcript?: string; // Digest of the blob with its conversation; missing or empty: none.
}

export interface Variant {
  id: string;
  job_id: string;
  candidate_digest: string;
  task_digest: string;
  task_name: string;
  target: string;
  device_model: string;
  status: string;
  values: Values | null;
  ratio: number;
  ratio_low: number;
  ratio_high: number;
  ratio_declared: number;
  ratio_tuned: number;
  roofline_fraction: number;
  accepted_ns: number;
  is_tuned_baseline: boolean;
  provenance?: Provenance;
}

export interface Provenance {
  variant?: { supersedes?: string; status_reason?: string };
  task?: { name: string; digest: string; blob: string };
  device?: Record<string, unknown>;
  toolchain?: string;
  kernel?: Kernel;
  baseline?: { kernel: Kernel; values: Values };
  denominator?: { digest: string; kernel: Kernel; values: Values; tuned_variant: string };
  parents?: string[];
  proposer?: { name: string; technique: string; rationale: string; seed?: string };
  confirmation?: Record<string, unknown>;
  builds?: Build[];
  verification?: Verification | null;
  measurement?: Measurement | null;
  against_incumbent?: Measurement | null;
  search_measurement?: Measurement | null;
  environment?: Record<string, unknown>;
  fettle_version?: string;
}

export interface FactSummary {
  id: string;
  builds: Build[];
  cases: Record<string, string>;
}

export interface CatalogEntry {
  task: string;
  target: string;
  device_model: string;
  variants: number;
}

export interface VariantCase {
  variant_id: string;
  task: string;
  task_digest: string;
  target: string;
  device_model: string;
  status: string;
  case: string;
  baseline_ns: number;
  variant_ns: number;
  ratio: number;
  ratio_low: number;
  ratio_high: number;
  bytes_per_s: number;
  flops_per_s: number;
  floor_ns: number;
  roofline_fraction: number;
}

/** What a device was measured to reach; 0: not known. */
export interface DeviceCeilings {
  bytes_per_s: number;
  cached_bytes_per_s: number;
  flops_per_s: number;
  flops8_per_s: number;
}
/** Of `fettle doctor --aa`. */
export interface AaFigures {
  candidates: number;
  confirmations: number;
  false_wins: number;
  ratio_low: number;
  ratio_high: number;
  spread_median: number;
  spread_p95: number;
  measured_ns: number;
}
export interface DeviceReport {
  id: string;
  model: string;
  target: string;
  driver: string;
  uuid: string;
  partition: string;
  host: string;
  health: string; // ok, suspect, quarantined
  reported_ns: number;
  ceilings: DeviceCeilings | null;
  aa: AaFigures | null;
  load?: number; // Of a connected worker's device.
}

export interface Worker {
  id: string;
  host: string;
  version: string;
  state: string;
  devices: Record<string, unknown>[] | null;
  compilers: { name?: string; identity?: string; targets?: string[] }[] | null;
  connected_ns: number;
  leased_units: number;
  device_states: DeviceReport[] | null; // Null before its first heartbeat.
}

export interface DeviceHealth {
  device_model: string;
  host: string;
  drivers: string[];
  compilers: string[];
  measured_cases: number;
  blocks: number;
  discarded_blocks: number;
  aa_spread_median: number;
  aa_spread_p95: number;
  memory_ceiling_bytes_per_s: number;
  last_ns: number;
  reports: DeviceReport[];
  drift: { time_ns: number; relative: number; job_id: string; task: string; case: string }[];
}

export interface Session {
  name: string;
  role: "read" | "propose" | "operate" | "worker";
  csrf: string;
  expires_ns: number;
}
