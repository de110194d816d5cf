-- The tables of the engine. Times are whole microseconds since 1970 in UTC.
-- Each narrow table's row is inserted once and deleted once; only `job` is updated, and no index covers what changes there.

create table setting (
  name text primary key,
  value text not null
) without rowid;

-- One row per job: its state and what changes with it.
create table job (
  id blob primary key check (length(id) = 16),
  tenant text not null,
  queue text not null,
  kind text not null,
  state text not null check (state in
    ('blocked', 'pending', 'assigned', 'running', 'skipped', 'completed', 'failed', 'cancelled')),
  priority integer not null check (priority between 1 and 10),
  band integer not null check (band between 0 and 2),
  lane integer not null,
  rank integer not null,
  due_at integer not null,
  attempt integer not null default 0 check (attempt >= 0),
  failures integer not null default 0,
  losses integer not null default 0,
  cancelling integer not null default 0 check (cancelling in (0, 1)),
  created_at integer not null,
  started_at integer,
  finished_at integer,
  reason text
) without rowid;

-- What never changes about a job, apart so that a state change never rewrites it.
create table spec (
  job blob primary key,
  arguments blob not null,
  options blob not null
);

create table result (
  job blob primary key,
  data blob not null
);

create table failure (
  job blob not null,
  attempt integer not null,
  at integer not null,
  reason text not null,
  type text not null,
  message text not null,
  traceback text not null,
  primary key (job, attempt)
);

-- Idempotency: one job per (tenant, key).
create table claim (
  tenant text not null,
  key text not null,
  job blob not null,
  digest blob not null,
  expires_at integer,
  primary key (tenant, key)
) without rowid;
create index claim_job on claim (job);

create table timer (
  partition integer not null,
  due_at integer not null,
  job blob not null,
  band integer not null,
  lane integer not null,
  rank integer not null,
  attempt integer not null,
  primary key (partition, due_at, job)
) without rowid;

create table ready (
  partition integer not null,
  band integer not null,
  lane integer not null,
  rank integer not null,
  job blob not null,
  attempt integer not null,
  primary key (partition, band, lane, rank, job)
) without rowid;

create table live (
  session blob not null,
  job blob not null,
  attempt integer not null,
  primary key (session, job)
) without rowid;

create table finished (
  tenant text not null,
  state text not null check (state in ('completed', 'failed', 'cancelled')),
  finished_at integer not null,
  job blob not null,
  primary key (tenant, state, finished_at, job)
) without rowid;

-- Jobs that must have started by a time.
create table expiry (
  partition integer not null,
  start_by integer not null,
  job blob not null,
  primary key (partition, start_by, job)
) without rowid;

-- Live jobs that were asked to stop.
create table cancel (
  job blob primary key,
  session blob not null,
  reason text not null
) without rowid;

-- What a job waits for, stored under the parent.
create table edge (
  parent blob not null,
  child blob not null,
  rule text not null check (rule in ('completed', 'ended')),
  primary key (parent, child)
) without rowid;
create index edge_child on edge (child);

create table lane (
  number integer primary key,
  definition blob not null
);

create table queue (
  tenant text not null,
  name text not null,
  paused integer not null check (paused in (0, 1)),
  primary key (tenant, name)
) without rowid;

create table kind (
  name text primary key,
  defaults blob not null
) without rowid;

-- A limit by name, its state by key, and the live jobs that count against it.
create table limit_rule (
  name text primary key,
  concurrency integer check (concurrency > 0),
  rate real check (rate > 0),
  burst integer not null check (burst > 0)
) without rowid;

create table limit_state (
  name text not null,
  key text not null,
  next_free_at integer not null,
  primary key (name, key)
) without rowid;

create table held (
  job blob not null,
  name text not null,
  key text not null,
  primary key (job, name)
) without rowid;
create index held_name on held (name, key);

create table node (
  id blob primary key,
  name text not null,
  started_at integer not null,
  lease_until integer not null,
  ended_at integer
) without rowid;

create table session (
  id blob primary key,
  node blob not null,
  name text not null,
  info blob,
  started_at integer not null,
  ended_at integer
) without rowid;

create table partition (
  number integer primary key,
  node blob
);

create table schedule (
  id text primary key,
  tenant text not null,
  name text not null,
  definition blob not null,
  origin text not null check (origin in ('code', 'user')),
  paused integer not null check (paused in (0, 1)),
  watermark_at integer not null,
  runs integer not null,
  next_at integer,
  version integer not null
) without rowid;
create index schedule_next on schedule (next_at) where paused = 0 and next_at is not null;

-- One job per (schedule, occurrence), for as long as the job lives.
create table occurrence (
  schedule text not null,
  occurrence_at integer not null,
  job blob not null,
  primary key (schedule, occurrence_at)
) without rowid;
create index occurrence_job on occurrence (job);

-- A schedule's jobs that have not ended: what overlap is decided by.
create table active (
  job blob primary key,
  schedule text not null
) without rowid;
create index active_schedule on active (schedule);

create table missed (
  schedule text not null,
  last_at integer not null,
  first_at integer not null,
  count integer,
  reason text not null,
  primary key (schedule, last_at, reason)
) without rowid;
