-- Every statement of the PostgreSQL store; `mainspring` stands for the schema's name. A batch is one statement over arrays.
--
-- A plan may be made while a table is empty and used when it has millions of rows. So no join leaves the planner a choice: the arrays
-- come first and each of their rows is looked up by index (`cross join lateral (... offset 0)`); what is changed is named by its place
-- (`ctid = any(array(...))`). Places are also the one order in which rows are locked.

-- name: insert_jobs
-- New jobs with all they bring. The arrays run in parallel, a job each; blocked ones go to neither `ready` nor `timer`.
with n as (
  select * from unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int2[], $9::int2[],
    $10::int8[], $11::int8[], $12::int8[], $13::int2[])
  as n (id, arguments, options, tenant, queue, kind, state, priority, band, lane, rank, due_at, partition)),
m as (insert into mainspring.mark (at, id, committed) select $15::int8, $16::bytea, true where $16 is not null),
j as (
  insert into mainspring.job (id, tenant, queue, kind, state, priority, band, lane, rank, due_at, created_at)
  select encode(id, 'hex')::uuid, tenant, queue, kind, state, priority, band, lane, rank, due_at, $14::int8 from n),
s as (
  insert into mainspring.spec (job, arguments, options) select encode(id, 'hex')::uuid, arguments, options from n),
r as (
  insert into mainspring.ready (partition, band, lane, rank, job, attempt)
  select partition, band, lane, rank, encode(id, 'hex')::uuid, 0 from n where state = 'pending' and due_at <= $14::int8)
insert into mainspring.timer (partition, due_at, job, band, lane, rank, attempt)
select partition, due_at, encode(id, 'hex')::uuid, band, lane, rank, 0 from n where state = 'pending' and due_at > $14::int8

-- name: insert_expiry
insert into mainspring.expiry (partition, start_by, job)
select p, s, encode(j, 'hex')::uuid from unnest($1::int2[], $2::int8[], $3::bytea[]) u (p, s, j)

-- name: insert_edges
insert into mainspring.edge (parent, child, rule)
select encode(p, 'hex')::uuid, encode(c, 'hex')::uuid, 'ended' from unnest($1::bytea[], $2::bytea[]) u (p, c) on conflict do nothing

-- name: known_jobs
select uuid_send(id) from mainspring.job where id = any(array(select encode(u, 'hex')::uuid from unnest($1::bytea[]) u))

-- name: waiting_parents
-- Of the jobs that others shall wait for, those that have not ended. Locked: whoever ends one of them sees our edges afterwards.
select uuid_send(id) from mainspring.job
where id = any(array(select encode(u, 'hex')::uuid from unnest($1::bytea[]) u)) and state not in ('completed', 'failed', 'cancelled')
order by ctid for share

-- name: take_claims
-- Those that were free or over. The others are locked and can be read.
insert into mainspring.claim (tenant, key, job, digest, expires_at)
select t, k, encode(j, 'hex')::uuid, d, e from unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::int8[]) u (t, k, j, d, e)
on conflict (tenant, key) do update set job = excluded.job, digest = excluded.digest, expires_at = excluded.expires_at
where claim.expires_at <= $6::int8
returning tenant, key

-- name: read_claims
select c.tenant, c.key, uuid_send(c.job), c.digest from unnest($1::text[], $2::text[]) u (tenant, key)
cross join lateral (select * from mainspring.claim c where c.tenant = u.tenant and c.key = u.key offset 0) c

-- name: read_holders
select j.id, j.state, j.finished_at, s.options from unnest($1::uuid[]) u (id)
cross join lateral (select * from mainspring.job j where j.id = u.id offset 0) j
cross join lateral (select * from mainspring.spec s where s.job = u.id offset 0) s

-- name: pass_claims
-- To jobs that could not reuse those who had them. Locked since `take_claims`.
update mainspring.claim c set job = encode(u.job, 'hex')::uuid, digest = u.digest, expires_at = u.expires_at
from unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[], $5::int8[]) u (tenant, key, job, digest, expires_at)
where c.tenant = u.tenant and c.key = u.key

-- name: put_lanes
insert into mainspring.lane (number, definition) select * from unnest($1::int8[], $2::bytea[]) on conflict do nothing

-- name: notify
select pg_notify($1::text, $2::text)

-- name: read_jobs
select j.id, j.tenant, j.queue, j.kind, j.state, j.priority, j.band, j.lane, j.rank, j.due_at, j.attempt, j.failures, j.losses,
  j.cancelling, j.created_at, j.started_at, j.finished_at, j.reason, j.usage, s.arguments, s.options
from mainspring.job j cross join lateral (select * from mainspring.spec s where s.job = j.id offset 0) s where j.id = any($1::uuid[])

-- name: list_jobs
-- Newest first. A null filter lets everything through.
select j.id, j.tenant, j.queue, j.kind, j.state, j.priority, j.band, j.lane, j.rank, j.due_at, j.attempt, j.failures, j.losses,
  j.cancelling, j.created_at, j.started_at, j.finished_at, j.reason, j.usage, s.arguments, s.options
from mainspring.job j cross join lateral (select * from mainspring.spec s where s.job = j.id offset 0) s
where j.id < $1 and ($2::text is null or j.tenant = $2) and ($3::text is null or j.state = $3) and ($4::text is null or j.queue = $4)
  and ($5::text is null or j.kind = $5)
  and ($6::text is null or convert_from(s.options, 'UTF8')::jsonb -> 'tags' ? $6)
  and ($7::text is null or convert_from(s.options, 'UTF8')::jsonb ->> 'schedule' = $7)
order by j.id desc limit $8

-- name: list_finished
-- The jobs of one ended state, latest end first: the listing that must not look at the rest.
select j.id, j.tenant, j.queue, j.kind, j.state, j.priority, j.band, j.lane, j.rank, j.due_at, j.attempt, j.failures, j.losses,
  j.cancelling, j.created_at, j.started_at, j.finished_at, j.reason, j.usage, s.arguments, s.options
from mainspring.finished f cross join lateral (select * from mainspring.job j where j.id = f.job offset 0) j
cross join lateral (select * from mainspring.spec s where s.job = f.job offset 0) s
where f.tenant = $1 and f.state = $2 and (f.finished_at, f.job) < ($3, $4) and ($5::text is null or j.queue = $5)
  and ($6::text is null or j.kind = $6)
  and ($7::text is null or convert_from(s.options, 'UTF8')::jsonb -> 'tags' ? $7)
  and ($8::text is null or convert_from(s.options, 'UTF8')::jsonb ->> 'schedule' = $8)
order by f.finished_at desc, f.job desc limit $9

-- name: ended_at
select finished_at from mainspring.job where id = $1

-- name: ended_tenants
-- A loose scan over the tenants that have finished jobs.
with recursive t (tenant) as (
  select min(tenant) from mainspring.finished
  union all select (select min(tenant) from mainspring.finished where tenant > t.tenant) from t where t.tenant is not null)
select tenant from t where tenant is not null

-- name: read_ended
-- With the last failure of those that did not complete.
select j.id, j.state, j.reason, r.data, j.tenant, j.kind, r.outputs, r.expires_at, f.reason, f.type, f.message, f.traceback
from mainspring.job j left join lateral (select data, outputs, expires_at from mainspring.result r where r.job = j.id limit 1) r on true
left join lateral (
  select * from mainspring.failure f where f.job = j.id and j.state <> 'completed' order by attempt desc limit 1) f on true
where j.id = any($1::uuid[]) and j.state in ('completed', 'failed', 'cancelled')

-- name: read_failures
select attempt, at, usage, reason, type, message, traceback from mainspring.failure where job = $1 order by attempt

-- name: list_parents
select parent from mainspring.edge where child = $1 order by parent limit $2

-- name: count_jobs
select queue, state, count(*) from mainspring.job where $1::text is null or tenant = $1 group by queue, state

-- name: list_ended
-- The earliest ends of each tenant and state are one piece of the key, so what ended before or later is not looked at.
select f.job, f.tenant, j.queue, j.kind, f.state, j.reason, j.attempt, f.finished_at
from (
  select e.* from unnest($1::text[]) t (name) cross join unnest(array['completed', 'failed', 'cancelled']) s (name)
  cross join lateral (
    select tenant, state, finished_at, job from mainspring.finished f
    where f.tenant = t.name and f.state = s.name and f.finished_at >= $2 order by f.finished_at, f.job limit $3) e
  order by e.finished_at, e.job limit $3) f
cross join lateral (select queue, kind, reason, attempt from mainspring.job j where j.id = f.job offset 0) j
order by f.finished_at, f.job

-- name: tally_ended
-- A step per job that ended in that time.
with ended as (
  select f.state, f.finished_at, j.kind, j.started_at is not null as ran, j.started_at - j.due_at as wait, f.finished_at - j.started_at as run
  from unnest(array['completed', 'failed', 'cancelled']) s (name)
  cross join lateral (
    select state, finished_at, job from mainspring.finished f
    where f.tenant = $1 and f.state = s.name and f.finished_at >= $2 and f.finished_at < $3 offset 0) f
  cross join lateral (select kind, due_at, started_at from mainspring.job j where j.id = f.job offset 0) j)
select kind, state, $2 + (finished_at - $2) / $4 * $4 as from_at,
  case when ran then floor(4 * ln(greatest(run, 1)::float8) / ln(2::float8) + 1e-9)::int4 else -1 end as bin, count(*),
  coalesce(sum(greatest(wait, 0)), 0)::int8, coalesce(sum(greatest(run, 0)), 0)::int8
from ended group by kind, state, from_at, bin order by from_at, kind collate "C", state, bin

-- name: usage_cuts
-- Where a step that takes $4 jobs of each end stops.
select f.finished_at from unnest(array['completed', 'failed', 'cancelled']) s (name) cross join lateral (
  select finished_at from mainspring.finished f
  where f.tenant = $1 and f.state = s.name and f.finished_at >= $2 and f.finished_at < $3 order by f.finished_at, f.job limit 1 offset $4) f

-- name: tally_usage
-- The last attempts of jobs that ended in that time, and those before that failed.
with ended as materialized (
  select j.id, j.kind, j.attempt, j.usage, s.client
  from unnest(array['completed', 'failed', 'cancelled']) e (name)
  cross join lateral (
    select job from mainspring.finished f
    where f.tenant = $1 and f.state = e.name and f.finished_at >= $2 and f.finished_at < $3 offset 0) f
  cross join lateral (select id, kind, attempt, usage from mainspring.job j where j.id = f.job offset 0) j
  cross join lateral (
    select convert_from(s.options, 'UTF8')::jsonb ->> 'client' as client from mainspring.spec s where s.job = f.job offset 0) s),
used as (
  select client, kind, 1 as jobs, attempt as attempts, convert_from(usage, 'UTF8')::jsonb as usage from ended
  union all
  select e.client, e.kind, 0, 0, convert_from(x.usage, 'UTF8')::jsonb from ended e cross join lateral (
    select usage from mainspring.failure x where x.job = e.id and x.attempt <> e.attempt and x.usage is not null offset 0) x)
select client, kind, sum(jobs)::int8, sum(attempts)::int8, coalesce(sum((usage ->> 'cpu_s')::float8), 0),
  max((usage ->> 'peak_mb')::float8), sum((usage ->> 'read_bytes')::int8)::int8, sum((usage ->> 'written_bytes')::int8)::int8,
  sum((usage ->> 'received_bytes')::int8)::int8, sum((usage ->> 'sent_bytes')::int8)::int8
from used group by client, kind

-- name: lock_rows
-- What a change of jobs is decided by, and nobody else's change until ours is made.
select id, state, attempt, failures, losses, cancelling, priority, band, lane, rank, due_at, tenant, created_at, finished_at, usage
from mainspring.job where id = any($1::uuid[]) order by ctid for update

-- name: read_options
-- Of locked jobs. Not in the statement that locks them: who waited there would see options as they were before he waited.
select job, options from mainspring.spec where job = any($1::uuid[])

-- name: end_jobs
update mainspring.job j set state = u.state, finished_at = $8, reason = u.reason, failures = u.failures, losses = u.losses, usage = u.usage
from unnest($1::uuid[], $2::int4[], $3::text[], $4::text[], $5::int4[], $6::int4[], $7::bytea[])
  u (job, attempt, state, reason, failures, losses, usage)
where j.ctid = any(array(select ctid from mainspring.job where id = any($1))) and j.id = u.job and j.attempt = u.attempt
  and j.state not in ('completed', 'failed', 'cancelled')

-- name: insert_finished
insert into mainspring.finished (tenant, state, finished_at, job) select t, s, $4, j from unnest($1::text[], $2::text[], $3::uuid[]) u (t, s, j)

-- name: delete_finished
delete from mainspring.finished where ctid = any(array(
  select f.place from unnest($1::text[], $2::text[], $3::int8[], $4::uuid[]) u (tenant, state, finished_at, job) cross join lateral (
    select ctid as place from mainspring.finished f
    where f.tenant = u.tenant and f.state = u.state and f.finished_at = u.finished_at and f.job = u.job offset 0) f))

-- name: requeue_jobs
update mainspring.job j set state = 'pending', due_at = u.due_at, rank = u.rank, failures = u.failures, losses = u.losses,
  priority = u.priority, band = u.band, cancelling = false, finished_at = null, reason = null, usage = u.usage
from unnest($1::uuid[], $2::int4[], $3::int8[], $4::int8[], $5::int4[], $6::int4[], $7::int2[], $8::int2[], $9::bytea[])
  u (job, attempt, due_at, rank, failures, losses, priority, band, usage)
where j.ctid = any(array(select ctid from mainspring.job where id = any($1))) and j.id = u.job and j.attempt = u.attempt
  and j.state <> 'completed'

-- name: put_waiting
-- Pending jobs into `ready` or `timer`, by their due time.
with n as (
  select * from unnest($1::int2[], $2::int2[], $3::int8[], $4::int8[], $5::uuid[], $6::int4[], $7::int8[])
  as n (partition, band, lane, rank, job, attempt, due_at)),
r as (
  insert into mainspring.ready (partition, band, lane, rank, job, attempt)
  select partition, band, lane, rank, job, attempt from n where due_at <= $8)
insert into mainspring.timer (partition, due_at, job, band, lane, rank, attempt)
select partition, due_at, job, band, lane, rank, attempt from n where due_at > $8

-- name: delete_timers
delete from mainspring.timer where ctid = any(array(
  select t.place from unnest($1::int2[], $2::int8[], $3::uuid[]) u (partition, due_at, job) cross join lateral (
    select ctid as place from mainspring.timer t where t.partition = u.partition and t.due_at = u.due_at and t.job = u.job offset 0) t))

-- name: delete_ready
delete from mainspring.ready where ctid = any(array(
  select r.place from unnest($1::int2[], $2::int2[], $3::int8[], $4::int8[], $5::uuid[]) u (partition, band, lane, rank, job)
  cross join lateral (
    select ctid as place from mainspring.ready r
    where r.partition = u.partition and r.band = u.band and r.lane = u.lane and r.rank = u.rank and r.job = u.job offset 0) r))

-- name: change_lanes
update mainspring.job j set lane = u.lane, queue = u.queue, kind = u.kind
from unnest($1::uuid[], $2::int8[], $3::text[], $4::text[]) u (job, lane, queue, kind)
where j.ctid = any(array(select ctid from mainspring.job where id = any($1))) and j.id = u.job

-- name: change_specs
-- What is null stays.
update mainspring.spec s set arguments = coalesce(u.arguments, s.arguments), options = coalesce(u.options, s.options)
from unnest($1::uuid[], $2::bytea[], $3::bytea[]) u (job, arguments, options)
where s.ctid = any(array(select ctid from mainspring.spec where job = any($1))) and s.job = u.job

-- name: delete_expiries
delete from mainspring.expiry where ctid = any(array(
  select e.place from unnest($1::int2[], $2::int8[], $3::uuid[]) u (partition, start_by, job) cross join lateral (
    select ctid as place from mainspring.expiry e where e.partition = u.partition and e.start_by = u.start_by and e.job = u.job offset 0) e))

-- name: drop_edges
delete from mainspring.edge where child = any($1::uuid[])

-- name: blocked_children
select distinct child from mainspring.edge where child = any($1::uuid[])

-- name: request_cancels
update mainspring.job set cancelling = true where id = any($1::uuid[])

-- name: insert_cancels
insert into mainspring.cancel (job, session, reason)
select l.job, l.session, $2 from unnest($1::uuid[]) u (job) cross join mainspring.session s
cross join lateral (select job, session from mainspring.live l where l.session = s.id and l.job = u.job offset 0) l on conflict do nothing

-- name: cancel_reasons
select job, reason from mainspring.cancel where job = any($1::uuid[])

-- name: insert_actives
insert into mainspring.active (job, schedule) select * from unnest($1::uuid[], $2::text[])

-- name: ripen_timers
-- The earliest due timers of each partition, up to $3 in all, become ready.
with gone as (
  delete from mainspring.timer where ctid = any(array(
    select t.place from unnest($1::int2[]) p (number) cross join lateral (
      select ctid as place from mainspring.timer where partition = p.number and due_at <= $2 order by due_at, job limit $3) t
    limit $3))
  returning partition, band, lane, rank, job, attempt),
moved as (
  insert into mainspring.ready (partition, band, lane, rank, job, attempt)
  select partition, band, lane, rank, job, attempt from gone)
select partition, band, lane, min(rank), count(*) from gone group by partition, band, lane

-- name: due_expiries
delete from mainspring.expiry where ctid = any(array(
  select e.place from unnest($1::int2[]) p (number) cross join lateral (
    select ctid as place from mainspring.expiry where partition = p.number and start_by <= $2 order by start_by limit $3) e
  limit $3))
returning job

-- name: next_due
select min(at) from (
  select (select min(due_at) from mainspring.timer where partition = p.number) as at from unnest($1::int2[]) p (number)
  union all select (select min(start_by) from mainspring.expiry where partition = p.number) from unnest($1::int2[]) p (number)) t

-- name: take_prunable
-- The oldest of one tenant and state, out of the list of ended jobs. What somebody else prunes or replays is not waited for.
with due as materialized (
  select f.job, f.finished_at from mainspring.finished f
  where f.tenant = $1 and f.state = $2 and f.finished_at < $3 and (
    (select 1 from mainspring.claim c where c.job = f.job limit 1) is null
    or (select created_at from mainspring.job j where j.id = f.job) < $4)
  order by f.finished_at limit $5),
held as materialized (
  select j.id, j.finished_at from due join mainspring.job j on j.id = due.job
  where j.state = $2 and j.finished_at = due.finished_at for update of j skip locked),
listed as (
  delete from mainspring.finished f where f.tenant = $1 and f.state = $2
    and f.finished_at between (select min(finished_at) from held) and (select max(finished_at) from held)
    and f.job = any(array(select id from held)))
select id from held

-- name: prune_jobs
with s as (delete from mainspring.spec where job = any($1::uuid[]) returning job, options),
r as (delete from mainspring.result where job = any($1::uuid[])),
p as (delete from mainspring.progress where job = any($1::uuid[])),
f as (delete from mainspring.failure where job = any($1::uuid[])),
c as (delete from mainspring.claim where job = any($1::uuid[])),
o as (delete from mainspring.occurrence where job = any($1::uuid[])),
j as (delete from mainspring.job where id = any($1::uuid[]))
delete from mainspring.expiry where ctid = any(array(
  select e.place from s cross join lateral (
    select ctid as place from mainspring.expiry e
    where e.partition = (mainspring.slot_of(s.job) * $2::int4 / 4096)::int2
      and e.start_by = (convert_from(s.options, 'UTF8')::json ->> 'start_by')::int8 and e.job = s.job offset 0) e))

-- name: prune_missed
delete from mainspring.missed where last_at < $1

-- name: forget_limits
-- A rate that was free an hour ago is as good as one never used.
delete from mainspring.limit_state where next_free_at < $1

-- name: forget_sessions
-- Sessions and nodes that ended and have nothing live any more.
delete from mainspring.session s where ended_at < $1 and not exists (select 1 from mainspring.live where live.session = s.id)

-- name: forget_nodes
delete from mainspring.node n where ended_at < $1 and not exists (select 1 from mainspring.session where session.node = n.id)

-- name: forget_marks
delete from mainspring.mark where at < $1

-- name: leave_mark
insert into mainspring.mark (at, id, committed) values ($1, $2, true) returning pg_current_xact_id()::text, pg_backend_pid()

-- name: end_transaction
-- Its server process may not have noticed yet that its client is gone: it must not commit after we have looked.
select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and backend_xid = $2::text::xid8::xid

-- name: deny_mark
-- Waits for the transaction where it has not ended yet. From now on it has committed, or never will.
insert into mainspring.mark (at, id, committed) values ($1, $2, false) on conflict do nothing

-- name: read_mark
select committed from mainspring.mark where at = $1 and id = $2

-- name: list_streams
-- A loose scan: from one stream the next is found by a seek, whatever number of jobs lie between.
with recursive s as (
  select f.partition, f.band, f.lane, f.rank from unnest($1::int2[]) p (number) cross join lateral (
    select partition, band, lane, rank from mainspring.ready where partition = p.number order by band, lane, rank limit 1) f
  union all
  select n.partition, n.band, n.lane, n.rank from s cross join lateral (
    select r.partition, r.band, r.lane, r.rank from mainspring.ready r
    where r.partition = s.partition and (r.band, r.lane) > (s.band, s.lane) order by r.band, r.lane, r.rank limit 1) n)
select partition, band, lane, rank from s

-- name: read_ready
select u.number, r.rank, r.job, r.attempt
from unnest($1::int2[], $2::int2[], $3::int8[], $4::int8[], $5::uuid[]) with ordinality u (partition, band, lane, rank, job, number)
cross join lateral (
  select rank, job, attempt from mainspring.ready r
  where r.partition = u.partition and r.band = u.band and r.lane = u.lane and (r.rank, r.job) > (u.rank, u.job)
  order by r.rank, r.job limit $6) r

-- name: open_sessions
select id from mainspring.session where id = any($1::bytea[]) and ended_at is null and ($2::bytea is null or node = $2) order by id for share

-- name: assign_jobs
-- Answers with what workers must know of the jobs. All or nothing: it divides by zero where a job was not moved, its ready row not
-- found, or a session not open; also where no job at all was found, because its mark says that all were assigned. Sessions are
-- locked, so that none ends while jobs are assigned to it.
with m as (insert into mainspring.mark (at, id, committed) select $9::int8, $10::bytea, true where $10 is not null),
open as (
  select 1 from mainspring.session where id = any($7::bytea[]) and ended_at is null and ($8::bytea is null or node = $8)
  order by id for share),
found as materialized (
  select j.* from unnest($1::uuid[], $2::int4[], $3::int8[], $4::bytea[]) u (job, attempt, lane, session) cross join lateral (
    select j.ctid as place, j.id, j.attempt, u.session, j.band, j.lane, j.rank, j.failures from mainspring.job j
    where j.id = u.job and j.state = 'pending' and j.attempt = u.attempt and j.lane = u.lane offset 0) j),
moved as (
  update mainspring.job set state = 'assigned', attempt = attempt + 1, started_at = $5
  where ctid = any(array(select place from found)) and state = 'pending' returning 1),
taken as (
  delete from mainspring.ready where ctid = any(array(
    select r.place from found f cross join lateral (
      select ctid as place from mainspring.ready r
      where r.partition = (mainspring.slot_of(f.id) * $6::int4 / 4096)::int2 and r.band = f.band and r.lane = f.lane
        and r.rank = f.rank and r.job = f.id offset 0) r))
  returning 1),
noted as (insert into mainspring.live (session, job, attempt) select session, id, attempt + 1 from found)
select f.id, s.arguments, s.options, f.failures, c.whole
from (select 1 / (
    (select count(*) from moved) = cardinality($1) and (select count(*) from taken) = cardinality($1)
    and (select count(*) from open) = cardinality($7))::int) c (whole)
left join (found f cross join lateral (select arguments, options from mainspring.spec s where s.job = f.id offset 0) s) on true

-- name: lock_ready
-- Of these jobs, those that are pending and in `ready`. What somebody else is changing right now counts as lost.
select j.id, j.attempt, j.lane from mainspring.job j
where j.id = any($1::uuid[]) and j.state = 'pending' and (
  select 1 from mainspring.ready r
  where r.partition = (mainspring.slot_of(j.id) * $2::int4 / 4096)::int2 and r.band = j.band and r.lane = j.lane and r.rank = j.rank
    and r.job = j.id) is not null
order by j.ctid for update skip locked

-- name: read_specs
select s.job, s.arguments, s.options, (select failures from mainspring.job where id = s.job)
from mainspring.spec s where s.job = any($1::uuid[])

-- name: lock_limits
-- Whoever assigns under a limit waits for those who do so now.
select name, concurrency, rate, burst from mainspring.limit_rule where name = any($1::text[]) order by name for update

-- name: limit_states
select u.name, u.key, (select count(*) from mainspring.held h where h.name = u.name and h.key = u.key),
  coalesce((select next_free_at from mainspring.limit_state l where l.name = u.name and l.key = u.key), 0)
from unnest($1::text[], $2::text[]) u (name, key)

-- name: insert_held
insert into mainspring.held (job, name, key) select * from unnest($1::uuid[], $2::text[], $3::text[])

-- name: put_limit_states
insert into mainspring.limit_state (name, key, next_free_at) select * from unnest($1::text[], $2::text[], $3::int8[])
on conflict (name, key) do update set next_free_at = excluded.next_free_at

-- name: complete_jobs
-- Successes. Answers with how many live rows and how many jobs there were.
with found as materialized (
  select l.place, l.job, u.usage from unnest($2::uuid[], $3::int4[], $5::bytea[]) u (job, attempt, usage) cross join lateral (
    select ctid as place, l.job from mainspring.live l where l.session = $1 and l.job = u.job and l.attempt = u.attempt offset 0) l),
gone as (delete from mainspring.live where ctid = any(array(select place from found)) returning 1),
done as (
  update mainspring.job j set state = 'completed', finished_at = $4, usage = p.usage
  from (
    select j.place, f.usage from found f
    cross join lateral (select ctid as place from mainspring.job where id = f.job offset 0) j order by j.place offset 0) p
  where j.ctid = p.place and j.state in ('assigned', 'running')
  returning j.id, j.tenant),
kept as (insert into mainspring.finished (tenant, state, finished_at, job) select tenant, 'completed', $4, id from done),
said as (
  insert into mainspring.result (job, data, outputs, expires_at) select * from unnest($6::uuid[], $7::bytea[], $8::bytea[], $9::int8[]))
select (select count(*) from gone), (select count(*) from done)

-- name: current_live
select job, attempt from mainspring.live where session = $1 and job = any($2::uuid[])

-- name: end_live
delete from mainspring.live where ctid = any(array(
  select l.place from unnest($1::bytea[], $2::uuid[], $3::int4[]) u (session, job, attempt) cross join lateral (
    select ctid as place from mainspring.live l where l.session = u.session and l.job = u.job and l.attempt = u.attempt offset 0) l))
returning job

-- name: release_live
-- What goes with a live row.
with h as (delete from mainspring.held where job = any($1::uuid[])),
p as (delete from mainspring.progress where job = any($1::uuid[]))
delete from mainspring.cancel where job = any($1::uuid[])

-- name: release_ended
-- What goes with a live row of a job that has ended, and who waits for it: after the end is written, so that no edge is missed.
with h as (delete from mainspring.held where job = any($1::uuid[])),
p as (delete from mainspring.progress where job = any($1::uuid[])),
c as (delete from mainspring.cancel where job = any($1::uuid[])),
a as (delete from mainspring.active where job = any($1::uuid[])),
e as (delete from mainspring.edge where parent = any($1::uuid[]) returning child)
select distinct child from e order by child

-- name: insert_failures
insert into mainspring.failure (job, attempt, at, usage, reason, type, message, traceback)
select j, n, $8, v, r, t, m, b
from unnest($1::uuid[], $2::int4[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[]) u (j, n, v, r, t, m, b)
on conflict (job, attempt) do update
set at = excluded.at, usage = excluded.usage, reason = excluded.reason, type = excluded.type, message = excluded.message, traceback = excluded.traceback

-- name: mark_running
update mainspring.job set state = 'running' where state = 'assigned' and ctid = any(array(
  select j.place from unnest($1::uuid[], $2::int4[]) u (job, attempt) cross join lateral (
    select ctid as place from mainspring.job j where j.id = u.job and j.attempt = u.attempt offset 0) j))

-- name: lock_live
-- Of these jobs, those with an attempt. It does not end until ours is written: who ends it finds what we leave behind.
select id, attempt from mainspring.job where id = any($1::uuid[]) and state in ('assigned', 'running') order by ctid for no key update

-- name: put_progress
insert into mainspring.progress (job, attempt, percent, message, at)
select j, n, p, m, $5 from unnest($1::uuid[], $2::int4[], $3::float8[], $4::text[]) u (j, n, p, m)
on conflict (job) do update set attempt = excluded.attempt, percent = excluded.percent, message = excluded.message, at = excluded.at

-- name: read_progress
select p.job, p.attempt, p.percent, p.message, p.at from mainspring.progress p
cross join lateral (
  select 1 from mainspring.job j where j.id = p.job and j.attempt = p.attempt and j.state in ('assigned', 'running') offset 0) j
where p.job = any($1::uuid[])

-- name: lost_attempts
select l.session, l.job, l.attempt from mainspring.session s cross join lateral (
  select session, job, attempt from mainspring.live l where l.session = s.id limit $1 for update skip locked) l
where s.ended_at is not null limit $1

-- name: list_cancelling
select job from mainspring.cancel where session = $1

-- name: insert_node
insert into mainspring.node (id, name, started_at, lease_until, url) values ($1, $2, $3, $4, $5)

-- name: renew_lease
update mainspring.node set lease_until = $1 where id = $2 and ended_at is null returning 1

-- name: end_nodes
update mainspring.node n set ended_at = $3 from unnest($1::bytea[], $2::int8[]) u (id, lease_until)
where n.id = u.id and n.ended_at is null and (u.lease_until is null or n.lease_until = u.lease_until) returning n.id

-- name: end_node_sessions
update mainspring.session set ended_at = $2 where node = any($1::bytea[]) and ended_at is null and not remote

-- name: free_partitions
update mainspring.partition set node = null where node = any($1::bytea[])

-- name: list_nodes
select id, name, started_at, lease_until, capacity, draining, (select count(*) from mainspring.partition p where p.node = n.id),
  url
from mainspring.node n where ended_at is null order by started_at, id

-- name: set_capacity
update mainspring.node set capacity = $1 where id = $2 and capacity <> $1 returning 1

-- name: drain_nodes
update mainspring.node set draining = true where id = any($1::bytea[]) and ended_at is null returning 1

-- name: lock_partitions
select number, node from mainspring.partition order by number for update

-- name: count_partitions
select count(*) from mainspring.partition

-- name: own_partitions
update mainspring.partition set node = $2 where number = any($1::int2[])

-- name: insert_session
insert into mainspring.session (id, node, name, info, started_at, tenant, remote)
select $1, id, $3, $4, $5, $6, $7 from mainspring.node where id = $2 and ended_at is null for share returning 1

-- name: share_node
-- A node that has not ended, and does not while this transaction goes on.
select 1 from mainspring.node where id = $1 and ended_at is null for share

-- name: adopt_session
update mainspring.session s set node = $2 where s.id = $1 and s.ended_at is null and s.remote
and (s.node = $2 or (select n.ended_at from mainspring.node n where n.id = s.node) is not null) returning 1

-- name: live_jobs
select l.job, l.attempt, j.lane, s.options from mainspring.live l
cross join lateral (select lane from mainspring.job j where j.id = l.job offset 0) j
cross join lateral (select options from mainspring.spec s where s.job = l.job offset 0) s where l.session = $1

-- name: list_orphans
select s.id, s.node from mainspring.session s
where s.ended_at is null and (select n.ended_at from mainspring.node n where n.id = s.node) is not null

-- name: list_sessions
select s.id, s.node, s.name, s.started_at, s.info, (select count(*) from mainspring.live l where l.session = s.id), s.tenant, s.remote
from mainspring.session s where s.ended_at is null order by s.started_at, s.id

-- name: read_sessions
select id, node, name, started_at, info, 0, tenant, remote from mainspring.session where id = any($1::bytea[]) and ended_at is null

-- name: find_session
-- A step per session, not per live job.
select l.session from mainspring.session s
cross join lateral (select session from mainspring.live l where l.session = s.id and l.job = $1 offset 0) l

-- name: end_sessions
update mainspring.session s set ended_at = $2 from unnest($1::bytea[]) u (id)
where s.id = u.id and s.ended_at is null and ($3::bytea is null or s.node = $3)

-- name: read_lanes
select number, definition from mainspring.lane where number = any($1::int8[])

-- name: put_queue
insert into mainspring.queue (tenant, name, paused) values ($1, $2, $3) on conflict (tenant, name) do update set paused = excluded.paused

-- name: list_queues
select q.tenant, q.name, q.paused, l.concurrency, l.rate, l.burst from mainspring.queue q
left join mainspring.limit_rule l on l.name = 'queue/' || q.tenant || '/' || q.name order by q.tenant, q.name

-- name: add_kinds
insert into mainspring.kind (name, defaults) select * from unnest($1::text[], $2::bytea[]) on conflict (name) do nothing

-- name: put_kinds
insert into mainspring.kind (name, defaults) select * from unnest($1::text[], $2::bytea[])
on conflict (name) do update set defaults = excluded.defaults

-- name: put_setting
insert into mainspring.setting (name, value) values ($1, $2) on conflict (name) do nothing

-- name: read_setting
select value from mainspring.setting where name = $1

-- name: list_kinds
select name, defaults from mainspring.kind order by name

-- name: put_limits
insert into mainspring.limit_rule (name, concurrency, rate, burst) select * from unnest($1::text[], $2::int4[], $3::float8[], $4::int4[])
on conflict (name) do update set concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst

-- name: delete_limits
delete from mainspring.limit_rule where name = any($1::text[])

-- name: list_limits
select name, concurrency, rate, burst from mainspring.limit_rule

-- name: insert_schedule
insert into mainspring.schedule (id, tenant, name, definition, origin, paused, watermark_at, runs, next_at, version)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1) on conflict do nothing returning 1

-- name: replace_schedule
update mainspring.schedule set definition = $3, origin = $4, paused = $5, watermark_at = $6, runs = $7, next_at = $8, version = version + 1
where id = $1 and version = $2 returning 1

-- name: delete_schedules
delete from mainspring.schedule where id = any($1::text[]) returning 1

-- name: list_schedules
select id, tenant, name, definition, origin, paused, watermark_at, runs, next_at, version from mainspring.schedule
where $1::text is null or tenant = $1 order by id

-- name: read_schedules
select id, tenant, name, definition, origin, paused, watermark_at, runs, next_at, version from mainspring.schedule where id = any($1::text[])

-- name: due_schedules
select id, tenant, name, definition, origin, paused, watermark_at, runs, next_at, version from mainspring.schedule
where not paused and next_at is not null and next_at <= $1 order by next_at limit $2

-- name: next_schedule
select min(next_at) from mainspring.schedule where not paused and next_at is not null and next_at > $1

-- name: count_active
-- Jobs of schedules that have started or wait to retry, and those that wait for their first start.
select a.schedule, count(*) filter (where j.attempt > 0), count(*) filter (where j.attempt = 0) from mainspring.active a
cross join lateral (select attempt from mainspring.job j where j.id = a.job offset 0) j
where a.schedule = any($1::text[]) group by a.schedule

-- name: advance_schedules
-- The compare-and-set that decides who fires.
update mainspring.schedule s set watermark_at = u.watermark_at, next_at = u.next_at, runs = u.runs, version = s.version + 1
from unnest($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::int8[]) u (id, version, watermark_at, next_at, runs)
where s.id = u.id and s.version = u.version returning s.id

-- name: insert_occurrences
insert into mainspring.occurrence (schedule, occurrence_at, job) select * from unnest($1::text[], $2::int8[], $3::uuid[])
on conflict do nothing returning job

-- name: last_active
-- The end of each schedule's chain: the jobs of it that no other one waits for. More than one after a replay, or where its rule changed.
select a.schedule, a.job from mainspring.active a
where a.schedule = any($1::text[]) and (select 1 from mainspring.edge where parent = a.job limit 1) is null

-- name: active_jobs
select job from mainspring.active where schedule = any($1::text[])

-- name: insert_missed
insert into mainspring.missed (schedule, last_at, first_at, count, reason)
select * from unnest($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::text[])
on conflict (schedule, last_at, reason) do update set first_at = excluded.first_at, count = excluded.count

-- name: list_missed
select schedule, first_at, last_at, count, reason from mainspring.missed where schedule = $1 order by last_at desc limit $2

-- name: put_tenant
-- What has been erased stays so.
insert into mainspring.tenant (name, quota, created_at) values ($1, $2, $3)
on conflict (name) do update set quota = excluded.quota where tenant.erased_at is null returning 1

-- name: list_tenants
select name, quota, created_at, erased_at, sealed from mainspring.tenant order by name collate "C"

-- name: seal_tenant
insert into mainspring.tenant (name, quota, created_at, sealed) values ($1, '{}', $2, $3)
on conflict (name) do update set sealed = excluded.sealed where tenant.erased_at is null returning 1

-- name: mark_erased
insert into mainspring.tenant (name, quota, created_at, erased_at) values ($1, '{}', $2, $2)
on conflict (name) do update set quota = excluded.quota, erased_at = excluded.erased_at where tenant.erased_at is null

-- name: jobs_of
-- In one look, so that none is missed on its way from one table to the next. What has ended is found by name, what waits by its
-- lanes; beyond the limit nothing is looked at.
select job from (
  select job from mainspring.finished where tenant = $1
  union all select job from mainspring.timer where lane = any(array(
    select number from mainspring.lane where convert_from(definition, 'UTF8')::json ->> 'tenant' = $1))
  union all select job from mainspring.ready where lane = any(array(
    select number from mainspring.lane where convert_from(definition, 'UTF8')::json ->> 'tenant' = $1))
  union all select l.job from mainspring.live l
    cross join lateral (select 1 from mainspring.job j where j.id = l.job and j.tenant = $1 offset 0) j
  union all select distinct e.child from mainspring.edge e
    cross join lateral (select 1 from mainspring.job j where j.id = e.child and j.tenant = $1 offset 0) j) found
limit $2

-- name: end_live_of
-- A step per job and session.
delete from mainspring.live where ctid = any(array(
  select l.place from unnest($1::uuid[]) u (job) cross join mainspring.session s cross join lateral (
    select ctid as place from mainspring.live l where l.session = s.id and l.job = u.job offset 0) l))

-- name: end_sessions_of
-- From now on nothing more is assigned to them.
update mainspring.session set ended_at = $2 where tenant = $1 and ended_at is null

-- name: erase_definitions
-- All that a tenant has beside jobs. A tenant's name has no slash in it. A session in which something is live stays for the rescue.
with r as (delete from mainspring.limit_rule where name = 'tenant/' || $1::text or starts_with(name, 'queue/' || $1 || '/')),
b as (
  delete from mainspring.limit_state
  where name = 'tenant/' || $1 or starts_with(name, 'queue/' || $1 || '/') or starts_with(key, $1 || '/')),
q as (delete from mainspring.queue where tenant = $1),
o as (delete from mainspring.occurrence where schedule = any(array(select id from mainspring.schedule where tenant = $1))),
m as (delete from mainspring.missed where starts_with(schedule, $1 || '/')),
s as (delete from mainspring.schedule where tenant = $1),
c as (delete from mainspring.claim where tenant = $1),
l as (delete from mainspring.lane where convert_from(definition, 'UTF8')::json ->> 'tenant' = $1),
n as (delete from mainspring.session s where tenant = $1 and (select 1 from mainspring.live l where l.session = s.id limit 1) is null),
t as (delete from mainspring.template where tenant = $1),
v as (delete from mainspring.template_version where tenant = $1),
w as (update mainspring.template set shared_with = array_remove(shared_with, $1) where tenant <> $1 and $1 = any(shared_with)),
k as (delete from mainspring.access_key where tenant = $1),
h as (delete from mainspring.secret where tenant = $1)
update mainspring.audit set content = null where tenant = $1 and content is not null

-- name: count_waiting
select lane, count(*) from (select lane from mainspring.timer union all select lane from mainspring.ready) w group by lane

-- name: insert_keys
insert into mainspring.access_key (id, digest, name, role, tenant, created_at, created_by, requests_per_s, expires_at, revoked_at)
select * from unnest($1::text[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::text[], $8::float8[], $9::int8[],
  $10::int8[])

-- name: spend_key
update mainspring.access_key set revoked_at = $2
where id = $1 and revoked_at is null and (expires_at is null or expires_at > $2) returning 1

-- name: read_keys
select id, digest, name, role, tenant, created_at, created_by, requests_per_s, expires_at, revoked_at from mainspring.access_key
where id = any($1::text[])

-- name: list_keys
select id, digest, name, role, tenant, created_at, created_by, requests_per_s, expires_at, revoked_at from mainspring.access_key
where $1::text is null or tenant = $1 order by created_at, id collate "C"

-- name: revoke_keys
update mainspring.access_key set revoked_at = $2 where id = any($1::text[]) and revoked_at is null returning 1

-- name: put_secrets
insert into mainspring.secret (tenant, name, key, sealed, changed_at, changed_by)
select * from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::int8[], $6::text[])
on conflict (tenant, name) do update
set key = excluded.key, sealed = excluded.sealed, changed_at = excluded.changed_at, changed_by = excluded.changed_by

-- name: read_secrets
select s.tenant, s.name, s.key, s.sealed, s.changed_at, s.changed_by from unnest($1::text[], $2::text[]) u (tenant, name)
cross join lateral (select * from mainspring.secret s where s.tenant = u.tenant and s.name = u.name offset 0) s

-- name: list_secrets
select tenant, name, key, sealed, changed_at, changed_by from mainspring.secret
where $1::text is null or tenant = $1 order by tenant collate "C", name collate "C"

-- name: delete_secrets
delete from mainspring.secret s using unnest($1::text[], $2::text[]) u (tenant, name)
where s.tenant = u.tenant and s.name = u.name returning 1

-- name: sealed_secret
-- The rows behind a place, with what is sealed in them where that does not begin with $3.
select tenant || '/' || name, case when substring(sealed from 1 for length($3::bytea)) <> $3 then sealed end from mainspring.secret
where (tenant collate "C", name collate "C") > (split_part($1::text, '/', 1), substr($1, strpos($1, '/') + 1))
order by tenant collate "C", name collate "C" limit $2

-- name: sealed_arguments
select job, case when substring(arguments from 1 for length($4::bytea)) = $4 and substring(arguments from 1 for length($3::bytea)) <> $3
  then arguments end
from mainspring.spec where job > $1 order by job limit $2

-- name: list_expired
select job, outputs is not null from mainspring.result where expires_at <= $1 order by expires_at, job limit $2

-- name: expire_results
with due as (
  select job from mainspring.result where job = any($1::uuid[]) and expires_at <= $2 order by job for update)
update mainspring.result r set data = ''::bytea, outputs = null, expires_at = null from due where r.job = due.job returning r.job

-- name: sealed_result
select job, case when substring(data from 1 for length($4::bytea)) = $4 and substring(data from 1 for length($3::bytea)) <> $3
  then data end
from mainspring.result where job > $1 order by job limit $2

-- name: replace_secret
update mainspring.secret s set sealed = u.fresh, key = $4 from unnest($1::text[], $2::bytea[], $3::bytea[]) u (place, old, fresh)
where s.tenant = split_part(u.place, '/', 1) and s.name = substr(u.place, strpos(u.place, '/') + 1) and s.sealed = u.old returning 1

-- name: replace_arguments
update mainspring.spec s set arguments = u.fresh from unnest($1::uuid[], $2::bytea[], $3::bytea[]) u (job, old, fresh)
where s.job = u.job and s.arguments = u.old returning 1

-- name: replace_result
update mainspring.result r set data = u.fresh from unnest($1::uuid[], $2::bytea[], $3::bytea[]) u (job, old, fresh)
where r.job = u.job and r.data = u.old returning 1

-- name: lock_templates
select 1 from unnest($1::text[], $2::text[]) u (tenant, name) cross join lateral (
  select 1 from mainspring.template t where t.tenant = u.tenant and t.name = u.name for update) t

-- name: last_versions
select u.tenant, u.name, (
  select max(version) from mainspring.template_version v where v.tenant = u.tenant and v.name = u.name)
from unnest($1::text[], $2::text[]) u (tenant, name)

-- name: insert_template_versions
insert into mainspring.template_version (tenant, name, version, definition, created_at, created_by)
select * from unnest($1::text[], $2::text[], $3::int4[], $4::bytea[], $5::int8[], $6::text[])

-- name: put_template
-- Who it is shared with is said with its first version.
insert into mainspring.template (tenant, name, current, shared_with) values ($1, $2, $3, $4)
on conflict (tenant, name) do update set current = excluded.current

-- name: list_templates
select v.tenant, v.name, v.version, v.definition, v.created_at, v.created_by, t.current, t.shared_with from mainspring.template t
cross join lateral (
  select * from mainspring.template_version v where v.tenant = t.tenant and v.name = t.name and v.version = t.current offset 0) v
where t.tenant = $1 or t.shared_with && $2::text[] order by t.tenant collate "C", t.name collate "C"

-- name: list_template_versions
select v.tenant, v.name, v.version, v.definition, v.created_at, v.created_by, t.current, t.shared_with from mainspring.template t
cross join lateral (select * from mainspring.template_version v where v.tenant = t.tenant and v.name = t.name offset 0) v
where t.tenant = $1 and t.name = $2 order by v.version desc

-- name: set_template
update mainspring.template t set current = coalesce($3, t.current), shared_with = coalesce($4, t.shared_with)
where t.tenant = $1 and t.name = $2 and (
  select 1 from mainspring.template_version v
  where v.tenant = t.tenant and v.name = t.name and v.version = coalesce($3, t.current)) is not null
returning 1

-- name: delete_template
delete from mainspring.template where tenant = $1 and name = $2 returning 1

-- name: delete_template_versions
delete from mainspring.template_version where tenant = $1 and name = $2

-- name: lock_chains
-- Whoever appends to a chain waits for those who do so now. In the order given, which is the same for all.
select pg_advisory_xact_lock(hashtextextended(u.name, 0)) from unnest($1::text[]) u (name)

-- name: chain_ends
select u.tenant, a.number, a.hash, a.at from unnest($1::text[]) u (tenant) cross join lateral (
  select number, hash, at from mainspring.audit a where a.tenant = u.tenant order by number desc limit 1) a

-- name: append_audit
insert into mainspring.audit (tenant, number, at, content, digest, hash)
select * from unnest($1::text[], $2::int8[], $3::int8[], $4::bytea[], $5::bytea[], $6::bytea[])

-- name: list_audit
select tenant, number, at, content, digest, hash from mainspring.audit where tenant = $1 and number > $2 order by number limit $3
