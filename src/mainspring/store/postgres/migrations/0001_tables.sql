-- The tables of the engine. Times are whole microseconds since 1970 in UTC.
-- Each narrow table's row is inserted once and deleted once; only `job` is updated, and no index covers what changes there.
-- `mainspring` stands for the schema's name. The slot is the 12 bits after the version of an id.
-- works with: 1

create function mainspring.slot_of(id uuid) returns integer
language sql immutable strict parallel safe
return ((get_byte(uuid_send(id), 6) & 15) << 8) | get_byte(uuid_send(id), 7);

create table mainspring.setting (
  name text primary key,
  value text not null
);

-- One row per job: its state and what changes with it. Half of each page is left free, so that both updates of a job's life
-- stay on its page and touch no index.
create table mainspring.job (
  id uuid primary key,
  tenant text not null,
  queue text not null,
  kind text not null,
  state text not null check (state in
    ('blocked', 'pending', 'assigned', 'running', 'skipped', 'completed', 'failed', 'cancelled')),
  priority smallint not null check (priority between 1 and 10),
  band smallint not null check (band between 0 and 2),
  lane bigint not null,
  rank bigint not null,
  due_at bigint not null,
  attempt integer not null default 0 check (attempt >= 0),
  failures integer not null default 0,
  losses integer not null default 0,
  cancelling boolean not null default false,
  created_at bigint not null,
  started_at bigint,
  finished_at bigint,
  reason text
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);

-- What never changes about a job, apart so that a state change never rewrites it.
create table mainspring.spec (
  job uuid primary key,
  arguments bytea not null,
  options bytea not null
);

create table mainspring.result (
  job uuid primary key,
  data bytea not null
);

create table mainspring.failure (
  job uuid not null,
  attempt integer not null,
  at bigint not null,
  reason text not null,
  type text not null,
  message text not null,
  traceback text not null,
  primary key (job, attempt)
);

-- Idempotency: one job per (tenant, key).
create table mainspring.claim (
  tenant text not null,
  key text not null,
  job uuid not null,
  digest bytea not null,
  expires_at bigint,
  primary key (tenant, key)
);
create index claim_job on mainspring.claim (job);

create table mainspring.timer (
  partition smallint not null,
  due_at bigint not null,
  job uuid not null,
  band smallint not null,
  lane bigint not null,
  rank bigint not null,
  attempt integer not null,
  primary key (partition, due_at, job)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table mainspring.ready (
  partition smallint not null,
  band smallint not null,
  lane bigint not null,
  rank bigint not null,
  job uuid not null,
  attempt integer not null,
  primary key (partition, band, lane, rank, job)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table mainspring.live (
  session bytea not null,
  job uuid not null,
  attempt integer not null,
  primary key (session, job)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table mainspring.finished (
  tenant text not null,
  state text not null check (state in ('completed', 'failed', 'cancelled')),
  finished_at bigint not null,
  job uuid not null,
  primary key (tenant, state, finished_at, job)
) with (autovacuum_vacuum_scale_factor = 0.05);

-- Jobs that must have started by a time.
create table mainspring.expiry (
  partition smallint not null,
  start_by bigint not null,
  job uuid not null,
  primary key (partition, start_by, job)
);

-- Live jobs that were asked to stop.
create table mainspring.cancel (
  job uuid primary key,
  session bytea not null,
  reason text not null
);
create index cancel_session on mainspring.cancel (session);

-- What a job waits for, stored under the parent.
create table mainspring.edge (
  parent uuid not null,
  child uuid not null,
  rule text not null check (rule in ('completed', 'ended')),
  primary key (parent, child)
);
create index edge_child on mainspring.edge (child);

create table mainspring.lane (
  number bigint primary key,
  definition bytea not null
);

create table mainspring.queue (
  tenant text not null,
  name text not null,
  paused boolean not null,
  primary key (tenant, name)
);

create table mainspring.kind (
  name text primary key,
  defaults bytea not null
);

-- A limit by name, its state by key, and the live jobs that count against it.
create table mainspring.limit_rule (
  name text primary key,
  concurrency integer check (concurrency > 0),
  rate double precision check (rate > 0),
  burst integer not null check (burst > 0)
);

create table mainspring.limit_state (
  name text not null,
  key text not null,
  next_free_at bigint not null,
  primary key (name, key)
);

create table mainspring.held (
  job uuid not null,
  name text not null,
  key text not null,
  primary key (job, name)
);
create index held_name on mainspring.held (name, key);

create table mainspring.node (
  id bytea primary key,
  name text not null,
  started_at bigint not null,
  lease_until bigint not null,
  ended_at bigint,
  capacity integer not null default 1 check (capacity >= 0),
  draining boolean not null default false
);

create table mainspring.session (
  id bytea primary key,
  node bytea not null,
  name text not null,
  info bytea,
  started_at bigint not null,
  ended_at bigint
);

create table mainspring.partition (
  number smallint primary key,
  node bytea
);

create table mainspring.schedule (
  id text primary key,
  tenant text not null,
  name text not null,
  definition bytea not null,
  origin text not null check (origin in ('code', 'user')),
  paused boolean not null,
  watermark_at bigint not null,
  runs bigint not null,
  next_at bigint,
  version bigint not null
);
create index schedule_next on mainspring.schedule (next_at) where not paused and next_at is not null;

-- One job per (schedule, occurrence), for as long as the job lives.
create table mainspring.occurrence (
  schedule text not null,
  occurrence_at bigint not null,
  job uuid not null,
  primary key (schedule, occurrence_at)
);
create index occurrence_job on mainspring.occurrence (job);

-- A schedule's jobs that have not ended: what overlap is decided by.
create table mainspring.active (
  job uuid primary key,
  schedule text not null
);
create index active_schedule on mainspring.active (schedule);

create table mainspring.missed (
  schedule text not null,
  last_at bigint not null,
  first_at bigint not null,
  count bigint,
  reason text not null,
  primary key (schedule, last_at, reason)
);

-- Each transaction leaves its mark, so that whoever lost the answer to its commit can find out what became of it.
create table mainspring.mark (
  at bigint not null,
  id bytea not null,
  committed boolean not null,
  primary key (at, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
