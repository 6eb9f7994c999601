// SPDX-License-Identifier: Apache-2.0
#include "store/schema.h"

namespace fettle {
namespace {

// Times are nanoseconds since the epoch (_ns), digests lower-case hex, documents JSON text unless a
// column says `zst` (zstd-compressed JSON). Enum texts are the names of core/verdict.h and
// store/records.h.
constexpr Migration kSteps[] = {
    {1, R"sql(
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tasks (
  digest TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  blob TEXT NOT NULL,              -- Digest of the packed files.
  created_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_by_name ON tasks(name);

CREATE TABLE registrations (
  task_digest TEXT NOT NULL REFERENCES tasks(digest),
  target TEXT NOT NULL,
  fettle_version TEXT NOT NULL,
  passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
  result_zst BLOB NOT NULL,        -- UnitResult.
  created_ns INTEGER NOT NULL,
  PRIMARY KEY (task_digest, target, fettle_version)
) STRICT, WITHOUT ROWID;

CREATE TABLE kernels (             -- KernelSpec documents; candidates that differ in values share one.
  digest TEXT NOT NULL PRIMARY KEY,
  source_digest TEXT NOT NULL,
  json TEXT NOT NULL
) STRICT;

CREATE TABLE jobs (
  id TEXT NOT NULL PRIMARY KEY,
  request_id TEXT UNIQUE,
  request_digest TEXT NOT NULL,    -- Of the whole request: a repeat must be equal.
  task_digest TEXT NOT NULL REFERENCES tasks(digest),
  target TEXT NOT NULL,            -- "auto" until a device was chosen.
  device_model TEXT NOT NULL,      -- Empty until then.
  toolchain TEXT NOT NULL,
  proposer TEXT NOT NULL,
  options_json TEXT NOT NULL,
  seed INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
  stage TEXT NOT NULL CHECK (stage IN ('register', 'tune', 'search')),
  message TEXT NOT NULL,
  cancel_requested INTEGER NOT NULL CHECK (cancel_requested IN (0, 1)),
  budget_candidates INTEGER NOT NULL,
  budget_wall_ms INTEGER NOT NULL,
  budget_device_ms INTEGER NOT NULL,
  budget_tokens INTEGER NOT NULL,
  budget_usd REAL NOT NULL,
  spent_candidates INTEGER NOT NULL,
  spent_wall_ms INTEGER NOT NULL,
  spent_device_ms INTEGER NOT NULL,
  spent_tokens INTEGER NOT NULL,
  spent_usd REAL NOT NULL,
  candidate_count INTEGER NOT NULL,
  judged_count INTEGER NOT NULL,
  since_improvement INTEGER NOT NULL,  -- Candidates judged since the last accepted variant.
  confirmations INTEGER NOT NULL,      -- Confirmations decided so far: the k of the rule.
  incumbent_ordinal INTEGER NOT NULL,  -- 0: the denominator itself.
  incumbent_ratio REAL NOT NULL,
  tuned_variant TEXT NOT NULL,         -- Denominator of the search stage; empty: declared values.
  tuned_ratio REAL NOT NULL,           -- Of the tuned over the declared baseline; 0: not known.
  best_variant TEXT NOT NULL,
  best_ratio_declared REAL NOT NULL,
  best_ratio_tuned REAL NOT NULL,
  space_size TEXT NOT NULL,
  last_sequence INTEGER NOT NULL,
  created_ns INTEGER NOT NULL,
  started_ns INTEGER NOT NULL,
  finished_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_time ON jobs(created_ns, id);
CREATE INDEX jobs_by_task ON jobs(task_digest);
CREATE INDEX jobs_by_state ON jobs(state, created_ns);

CREATE TABLE events (
  job_id TEXT NOT NULL REFERENCES jobs(id),
  sequence INTEGER NOT NULL CHECK (sequence >= 1),
  time_ns INTEGER NOT NULL,
  terminal INTEGER NOT NULL CHECK (terminal IN (0, 1)),
  payload BLOB NOT NULL,           -- Serialized JobEvent with its payload set.
  PRIMARY KEY (job_id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE candidates (
  job_id TEXT NOT NULL REFERENCES jobs(id),
  ordinal INTEGER NOT NULL CHECK (ordinal >= 1),
  digest TEXT NOT NULL,
  kernel_digest TEXT NOT NULL REFERENCES kernels(digest),
  values_json TEXT NOT NULL,
  parent TEXT NOT NULL,
  proposer TEXT NOT NULL,
  technique TEXT NOT NULL,
  rationale TEXT NOT NULL,
  stage TEXT NOT NULL CHECK (stage IN ('tune', 'search')),
  state TEXT NOT NULL CHECK (state IN ('evaluating', 'confirming', 'judged')),
  judged_order INTEGER NOT NULL,   -- From 1 within the job; 0: not judged.
  verdict TEXT NOT NULL,           -- Empty until judged.
  verdict_json TEXT NOT NULL,
  ratio REAL NOT NULL,             -- 0: not measured.
  created_ns INTEGER NOT NULL,
  judged_ns INTEGER NOT NULL,
  PRIMARY KEY (job_id, ordinal)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX candidates_by_digest ON candidates(job_id, digest);
CREATE INDEX candidates_by_verdict ON candidates(job_id, verdict, ordinal);
CREATE INDEX candidates_by_judged ON candidates(job_id, judged_order);
CREATE INDEX candidates_open ON candidates(job_id, ordinal) WHERE state <> 'judged';
CREATE INDEX candidates_by_kernel ON candidates(kernel_digest);

CREATE TABLE units (               -- One row per (unit, attempt): the lease.
  id TEXT NOT NULL,
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  job_id TEXT NOT NULL REFERENCES jobs(id),
  ordinal INTEGER NOT NULL,        -- Candidate; 0: none (register).
  kind TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'leased', 'done', 'returned', 'cancelled')),
  worker_id TEXT NOT NULL,
  seed INTEGER NOT NULL,           -- Secret until the job ends.
  held_out_seed INTEGER NOT NULL,  -- Likewise.
  incumbent_ordinal INTEGER NOT NULL,
  reason TEXT NOT NULL,            -- Why it was given back.
  created_ns INTEGER NOT NULL,
  leased_ns INTEGER NOT NULL,
  ended_ns INTEGER NOT NULL,
  PRIMARY KEY (id, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX units_by_job ON units(job_id, ordinal);
CREATE INDEX units_open ON units(job_id) WHERE state IN ('pending', 'leased');

CREATE TABLE evaluations (         -- One row per unit with a stored result.
  unit_id TEXT NOT NULL PRIMARY KEY,
  attempt INTEGER NOT NULL,
  job_id TEXT NOT NULL REFERENCES jobs(id),
  ordinal INTEGER NOT NULL,
  kind TEXT NOT NULL,
  verdict TEXT NOT NULL,           -- As the worker's stages decided; empty: all passed.
  verification_passed INTEGER,     -- NULL: that stage did not run.
  compile_ns INTEGER NOT NULL,
  device_ns INTEGER NOT NULL,
  wall_ns INTEGER NOT NULL,
  worker_id TEXT NOT NULL,
  host TEXT NOT NULL,
  device_model TEXT NOT NULL,
  driver TEXT NOT NULL,
  compiler TEXT NOT NULL,
  fettle_version TEXT NOT NULL,
  stored_ns INTEGER NOT NULL,
  result_zst BLOB NOT NULL         -- UnitResult, raw samples included.
) STRICT;
CREATE INDEX evaluations_by_candidate ON evaluations(job_id, ordinal);

CREATE TABLE measurements (        -- One row per measured case.
  unit_id TEXT NOT NULL REFERENCES evaluations(unit_id),
  against TEXT NOT NULL CHECK (against IN ('screening', 'denominator', 'incumbent')),
  case_label TEXT NOT NULL,
  weight REAL NOT NULL,
  a_median_ns REAL NOT NULL,
  b_median_ns REAL NOT NULL,
  ratio REAL NOT NULL,
  ratio_low REAL NOT NULL,
  ratio_high REAL NOT NULL,
  aa_spread REAL NOT NULL,
  bytes_per_s REAL NOT NULL,
  flops_per_s REAL NOT NULL,
  floor_ns REAL NOT NULL,
  roofline_fraction REAL NOT NULL,
  blocks INTEGER NOT NULL,
  discarded_blocks INTEGER NOT NULL,
  PRIMARY KEY (unit_id, against, case_label)
) STRICT, WITHOUT ROWID;

CREATE TABLE builds (
  unit_id TEXT NOT NULL REFERENCES evaluations(unit_id),
  position INTEGER NOT NULL,
  build_key TEXT NOT NULL,
  code_object TEXT NOT NULL,       -- Blob digest; empty: rejected.
  compiler TEXT NOT NULL,
  cache_hit INTEGER NOT NULL,
  elapsed_ns INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('run', 'emulated', 'compiled_only')),
  PRIMARY KEY (unit_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE variants (
  id TEXT NOT NULL PRIMARY KEY,
  job_id TEXT NOT NULL REFERENCES jobs(id),
  ordinal INTEGER NOT NULL,
  candidate_digest TEXT NOT NULL,
  task_digest TEXT NOT NULL REFERENCES tasks(digest),
  target TEXT NOT NULL,
  device_model TEXT NOT NULL,
  toolchain TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('accepted', 'superseded', 'demoted')),
  status_reason TEXT NOT NULL,
  values_json TEXT NOT NULL,
  ratio REAL NOT NULL,
  ratio_low REAL NOT NULL,
  ratio_high REAL NOT NULL,
  ratio_declared REAL NOT NULL,
  ratio_tuned REAL NOT NULL,
  roofline_fraction REAL NOT NULL,
  is_tuned_baseline INTEGER NOT NULL CHECK (is_tuned_baseline IN (0, 1)),
  parent_variant TEXT NOT NULL,    -- The incumbent that it replaced; empty: none.
  accepted_ns INTEGER NOT NULL,
  provenance_zst BLOB NOT NULL     -- docs/provenance.md.
) STRICT;
CREATE UNIQUE INDEX variants_by_candidate ON variants(job_id, ordinal);
CREATE INDEX variants_by_task ON variants(task_digest, target, status);
CREATE INDEX variants_by_time ON variants(accepted_ns, id);
)sql"},
    {2, R"sql(
CREATE TABLE proposals (           -- What clients handed in, until the job takes it.
  job_id TEXT NOT NULL REFERENCES jobs(id),
  sequence INTEGER NOT NULL CHECK (sequence >= 1),
  key TEXT NOT NULL,               -- Of the client; a repeat must be equal.
  request_digest TEXT NOT NULL,
  candidate_digest TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'taken')),
  kernel_json TEXT NOT NULL,       -- The whole block, chosen values included.
  parent TEXT NOT NULL,
  technique TEXT NOT NULL,
  rationale TEXT NOT NULL,
  fit INTEGER NOT NULL,            -- Values of the tunables that the tuner may try.
  created_ns INTEGER NOT NULL,
  PRIMARY KEY (job_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX proposals_by_key ON proposals(job_id, key);
CREATE INDEX proposals_by_candidate ON proposals(job_id, candidate_digest);
CREATE INDEX proposals_queued ON proposals(job_id, sequence) WHERE state = 'queued';

CREATE TABLE propose_tokens (
  sha256 TEXT NOT NULL PRIMARY KEY,
  job_id TEXT NOT NULL REFERENCES jobs(id),
  created_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE directions (          -- Who works on what.
  job_id TEXT NOT NULL REFERENCES jobs(id),
  direction TEXT NOT NULL,
  holder TEXT NOT NULL,
  until_ns INTEGER NOT NULL,
  PRIMARY KEY (job_id, direction)
) STRICT, WITHOUT ROWID;

CREATE TABLE tries (               -- Evaluations that proposers asked for outside the candidates.
  job_id TEXT NOT NULL REFERENCES jobs(id),
  sequence INTEGER NOT NULL CHECK (sequence >= 1),
  mode TEXT NOT NULL,
  candidate_digest TEXT NOT NULL,
  verdict TEXT NOT NULL,           -- Empty: nothing was wrong.
  device_ms INTEGER NOT NULL,
  created_ns INTEGER NOT NULL,
  PRIMARY KEY (job_id, sequence)
) STRICT, WITHOUT ROWID;
)sql"},
    {3, R"sql(
CREATE TABLE agent_calls (         -- Every question to a model and every try: before it is sent, and its end.
  job_id TEXT NOT NULL REFERENCES jobs(id),
  sequence INTEGER NOT NULL CHECK (sequence >= 1),
  kind TEXT NOT NULL,              -- "model/plan", "model/write", "try/compile", ...
  model TEXT NOT NULL,
  request_digest TEXT NOT NULL,    -- Of kind and question: what a repeat is recognized by.
  request_zst BLOB NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('sent', 'answered', 'failed', 'lost')),
  reply_zst BLOB NOT NULL,         -- Empty until answered.
  error TEXT NOT NULL,
  tokens INTEGER NOT NULL,         -- Charged: the reservation until it is settled.
  usd REAL NOT NULL,
  device_ms INTEGER NOT NULL,
  created_ns INTEGER NOT NULL,
  ended_ns INTEGER NOT NULL,
  PRIMARY KEY (job_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_calls_by_request ON agent_calls(job_id, request_digest, sequence);

CREATE TABLE transcripts (         -- The conversation that a candidate came from.
  job_id TEXT NOT NULL REFERENCES jobs(id),
  candidate_digest TEXT NOT NULL,
  blob TEXT NOT NULL,
  PRIMARY KEY (job_id, candidate_digest)
) STRICT, WITHOUT ROWID;
)sql"},
    {4, R"sql(
CREATE TABLE device_reports (      -- What workers last said of their devices.
  host TEXT NOT NULL,
  device_id TEXT NOT NULL,
  model TEXT NOT NULL,
  target TEXT NOT NULL,
  driver TEXT NOT NULL,
  uuid TEXT NOT NULL,
  partition TEXT NOT NULL,
  worker_id TEXT NOT NULL,
  health TEXT NOT NULL CHECK (health IN ('ok', 'suspect', 'quarantined')),
  bytes_per_s REAL NOT NULL,       -- Measured ceilings; 0: not measured.
  cached_bytes_per_s REAL NOT NULL,
  flops_per_s REAL NOT NULL,
  flops8_per_s REAL NOT NULL,
  aa_json TEXT NOT NULL,           -- Figures of doctor --aa; empty: never run.
  reported_ns INTEGER NOT NULL,
  PRIMARY KEY (host, device_id)
) STRICT, WITHOUT ROWID;

-- What lists filter, search and sort by: a row itself is mostly provenance, on pages of its own.
CREATE INDEX variants_listed ON variants(task_digest, target, device_model, status, job_id, id,
  accepted_ns, ratio, ratio_declared, roofline_fraction, values_json);
)sql"},
    {5, R"sql(
-- What a job's calls cost is summed with every change of the job: from here, not from the rows with
-- their long texts.
CREATE INDEX agent_calls_charges ON agent_calls(job_id, tokens, usd);
)sql"},
    {6, R"sql(
CREATE TABLE worker_tokens (       -- Of workers that were started for one job.
  sha256 TEXT NOT NULL PRIMARY KEY,
  job_id TEXT NOT NULL REFERENCES jobs(id),
  created_ns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE allocations (         -- Places that a pool gave to workers of a job.
  job_id TEXT NOT NULL REFERENCES jobs(id),
  id TEXT NOT NULL,                -- As the pool names it: "12_3" of Slurm.
  devices INTEGER NOT NULL,
  held_s INTEGER NOT NULL,         -- In all; a place may be given again under the same name.
  seen_s INTEGER NOT NULL,         -- As the pool said last.
  last_ns INTEGER NOT NULL,
  PRIMARY KEY (job_id, id)
) STRICT, WITHOUT ROWID;
)sql"},
    {7, R"sql(
-- The device time that is reserved for the unit; 0: no limit.
ALTER TABLE units ADD COLUMN device_cap_ms INTEGER NOT NULL DEFAULT 0;
-- What an attempt took that ended without a result.
ALTER TABLE units ADD COLUMN device_ms INTEGER NOT NULL DEFAULT 0;
)sql"},
};

}  // namespace

std::span<const Migration> SchemaSteps() { return kSteps; }

}  // namespace fettle
