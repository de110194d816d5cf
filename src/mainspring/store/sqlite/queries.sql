-- Every statement of the SQLite store. `carray(?)` is an array bound as one value, so that a batch is one statement and the
-- interpreter lock is free while it runs. `:slot` below is spelled out: the 12 bits after the version of a 16-byte id.

-- name: insert_jobs
-- Jobs that share a template. Each value of the array is an id followed by its arguments.
insert into job (id, tenant, queue, kind, state, priority, band, lane, rank, due_at, created_at)
select substr(value, 1, 16), ?2, ?3, ?4, ?11, ?5, ?6, ?7, ?8 + rowid, ?9, ?10 from carray(?1)

-- name: insert_specs
insert into spec (job, arguments, options) select substr(value, 1, 16), substr(value, 17), ?2 from carray(?1)

-- name: insert_ready
-- ?6 is every byte in order, so that instr() turns a byte into its number.
insert into ready (partition, band, lane, rank, job, attempt)
select (((instr(?6, substr(value, 7, 1)) - 1 & 15) << 8) + instr(?6, substr(value, 8, 1)) - 1) * ?5 / 4096,
  ?2, ?3, ?4 + rowid, substr(value, 1, 16), 0 from carray(?1)

-- name: insert_timers
insert into timer (partition, due_at, job, band, lane, rank, attempt)
select (((instr(?6, substr(value, 7, 1)) - 1 & 15) << 8) + instr(?6, substr(value, 8, 1)) - 1) * ?5 / 4096,
  ?7, substr(value, 1, 16), ?2, ?3, ?4 + rowid, 0 from carray(?1)

-- name: waiting_parents
-- Of the jobs that others shall wait for, those that have not ended.
select id from job where id in (select value from carray(?1)) and state not in ('completed', 'failed', 'cancelled')

-- name: insert_edges
insert into edge (parent, child, rule) select ?2, substr(value, 1, 16), 'ended' from carray(?1)

-- name: unlocked_children
select distinct child from edge where parent in (select value from carray(?1))

-- name: cut_edges
delete from edge where parent in (select value from carray(?1))

-- name: drop_edges
delete from edge where child = ?

-- name: list_parents
select parent from edge where child = ? order by parent limit ?

-- name: count_parents
select count(*) from edge where child = ?

-- name: insert_expiry
insert into expiry (partition, start_by, job) values (?, ?, ?)

-- name: known_jobs
select id from job where id in (select value from carray(?1))

-- name: read_claim
select job, digest, expires_at from claim where tenant = ? and key = ?

-- name: read_holder
select j.state, j.finished_at, s.options from job j join spec s on s.job = j.id where j.id = ?

-- name: put_claim
insert or replace into claim (tenant, key, job, digest, expires_at) values (?, ?, ?, ?, ?)

-- name: read_jobs
select j.id, j.tenant, j.queue, j.kind, j.state, j.priority, j.band, j.lane, j.rank, j.due_at, j.attempt, j.failures, j.losses,
  j.cancelling, j.created_at, j.started_at, j.finished_at, j.reason, j.usage, s.arguments, s.options
from job j join spec s on s.job = j.id where j.id in (select value from carray(?1))

-- name: list_jobs
-- Newest first. A null filter lets everything through.
select j.id, j.tenant, j.queue, j.kind, j.state, j.priority, j.band, j.lane, j.rank, j.due_at, j.attempt, j.failures, j.losses,
  j.cancelling, j.created_at, j.started_at, j.finished_at, j.reason, j.usage, s.arguments, s.options
from job j join spec s on s.job = j.id
where j.id < ?1 and (?2 is null or j.tenant = ?2) and (?3 is null or j.state = ?3) and (?4 is null or j.queue = ?4)
  and (?5 is null or j.kind = ?5)
  and (?6 is null or exists (select 1 from json_each(s.options, '$.tags') where value = ?6))
  and (?7 is null or s.options ->> '$.schedule' = ?7)
order by j.id desc limit ?8

-- name: list_finished
-- The jobs of one ended state, latest end first: the listing that must not look at the rest.
select j.id, j.tenant, j.queue, j.kind, j.state, j.priority, j.band, j.lane, j.rank, j.due_at, j.attempt, j.failures, j.losses,
  j.cancelling, j.created_at, j.started_at, j.finished_at, j.reason, j.usage, s.arguments, s.options
from finished f join job j on j.id = f.job join spec s on s.job = f.job
where f.tenant = ?1 and f.state = ?2 and (f.finished_at, f.job) < (?3, ?4) and (?5 is null or j.queue = ?5)
  and (?6 is null or j.kind = ?6)
  and (?7 is null or exists (select 1 from json_each(s.options, '$.tags') where value = ?7))
  and (?8 is null or s.options ->> '$.schedule' = ?8)
order by f.finished_at desc, f.job desc limit ?9

-- name: read_ended
select j.id, j.state, j.reason, r.data, j.tenant, j.kind, r.outputs, r.expires_at from job j left join result r on r.job = j.id
where j.id in (select value from carray(?1)) and j.state in ('completed', 'failed', 'cancelled')

-- name: read_failures
select attempt, at, usage, reason, type, message, traceback from failure where job = ? order by attempt

-- name: last_failure
select reason, type, message, traceback from failure where job = ? order by attempt desc limit 1

-- name: count_jobs
select queue, state, count(*) from job where ?1 is null or tenant = ?1 group by queue, state

-- name: list_ended
-- The jobs of one tenant and one ended state, earliest end first.
select f.job, j.tenant, j.queue, j.kind, j.state, j.reason, j.attempt, f.finished_at
from finished f join job j on j.id = f.job
where f.tenant = ?1 and f.state = ?2 and f.finished_at >= ?3 order by f.finished_at, f.job limit ?4

-- name: tally_ended
-- One state's jobs, by kind, period and bin of their running time. A clock that was set back makes no time negative.
select j.kind, f.state, ?3 + (f.finished_at - ?3) / ?5 * ?5,
  case when j.started_at is null then -1 else cast(floor(4 * log2(max(f.finished_at - j.started_at, 1))) as integer) end,
  count(*), coalesce(sum(max(j.started_at - j.due_at, 0)), 0), coalesce(sum(max(f.finished_at - j.started_at, 0)), 0)
from finished f join job j on j.id = f.job
where f.tenant = ?1 and f.state = ?2 and f.finished_at >= ?3 and f.finished_at < ?4
group by 1, 2, 3, 4

-- name: usage_cut
-- Where a step that takes ?5 jobs of one end stops; no row where there are fewer.
select finished_at from finished where tenant = ?1 and state = ?2 and finished_at >= ?3 and finished_at < ?4
order by finished_at, job limit 1 offset ?5

-- name: tally_usage
-- One state's jobs: their last attempts, and those before that failed.
with ended as materialized (
  select j.id, j.kind, j.attempt, j.usage, s.options ->> '$.client' as client
  from finished f join job j on j.id = f.job join spec s on s.job = f.job
  where f.tenant = ?1 and f.state = ?2 and f.finished_at >= ?3 and f.finished_at < ?4),
used as (
  select client, kind, 1 as jobs, attempt as attempts, usage from ended
  union all
  select e.client, e.kind, 0, 0, x.usage from ended e join failure x on x.job = e.id and x.attempt <> e.attempt where x.usage is not null)
select client, kind, sum(jobs), sum(attempts), total(usage ->> '$.cpu_s'), max(usage ->> '$.peak_mb'), sum(usage ->> '$.read_bytes'),
  sum(usage ->> '$.written_bytes'), sum(usage ->> '$.received_bytes'), sum(usage ->> '$.sent_bytes')
from used group by client, kind

-- name: read_progress
-- Of attempts that are live: code of schema 2 leaves what was said before.
select p.job, p.attempt, p.percent, p.message, p.at from progress p
join job j on j.id = p.job and j.attempt = p.attempt and j.state in ('assigned', 'running')
where p.job in (select value from carray(?1))

-- name: read_row
-- What a change of one job is decided by.
select j.id, j.state, j.attempt, j.failures, j.losses, j.cancelling, j.priority, j.band, j.lane, j.rank, j.due_at, j.tenant,
  j.created_at, j.finished_at, j.usage, s.options
from job j join spec s on s.job = j.id where j.id = ?

-- name: end_job
update job set state = ?2, finished_at = ?3, reason = ?4, failures = ?5, losses = ?6, usage = ?7
where id = ?1 and state = ?8 and attempt = ?9

-- name: requeue_job
update job set state = 'pending', due_at = ?2, rank = ?3, failures = ?4, losses = ?5, priority = ?6, band = ?7, cancelling = 0,
  finished_at = null, reason = null, usage = ?8
where id = ?1 and state = ?9 and attempt = ?10

-- name: move_job
-- To another lane, which names its queue and kind.
update job set lane = ?2, queue = ?3, kind = ?4 where id = ?1

-- name: change_spec
update spec set arguments = coalesce(?2, arguments), options = coalesce(?3, options) where job = ?1

-- name: request_cancel
update job set cancelling = 1 where id = ?

-- name: insert_cancel
insert or ignore into cancel (job, session, reason)
select l.job, l.session, ?2 from session s join live l on l.session = s.id and l.job = ?1

-- name: cancel_reason
select reason from cancel where job = ?

-- name: insert_finished
insert into finished (tenant, state, finished_at, job) values (?, ?, ?, ?)

-- name: delete_finished
delete from finished where tenant = ? and state = ? and finished_at = ? and job = ?

-- name: put_ready
insert into ready (partition, band, lane, rank, job, attempt) values (?, ?, ?, ?, ?, ?)

-- name: put_timer
insert into timer (partition, due_at, job, band, lane, rank, attempt) values (?, ?, ?, ?, ?, ?, ?)

-- name: delete_ready
delete from ready where partition = ? and band = ? and lane = ? and rank = ? and job = ?

-- name: delete_timer
delete from timer where partition = ? and due_at = ? and job = ?

-- name: last_ripe
-- Where a step that takes ?3 + 1 due timers of a partition ends; no row where fewer are due.
select due_at, job from timer where partition = ?1 and due_at <= ?2 order by due_at, job limit 1 offset ?3

-- name: ripen_timers
insert into ready (partition, band, lane, rank, job, attempt)
select partition, band, lane, rank, job, attempt from timer where partition = ?1 and (due_at, job) <= (?2, ?3)

-- name: ripe_streams
select band, lane, min(rank) from timer where partition = ?1 and (due_at, job) <= (?2, ?3) group by band, lane

-- name: delete_timers
delete from timer where partition = ?1 and (due_at, job) <= (?2, ?3)

-- name: next_due
select min(due_at) from timer where partition = ?

-- name: due_expiries
select start_by, job from expiry where partition = ?1 and start_by <= ?2 order by start_by limit ?3

-- name: next_expiry
select min(start_by) from expiry where partition = ?

-- name: delete_expiry
delete from expiry where partition = ? and start_by = ? and job = ?

-- name: first_stream
-- With `next_stream` a loose scan: from one stream the next is found by a seek, whatever number of jobs lie between.
select band, lane, rank from ready where partition = ?1 order by band, lane, rank limit 1

-- name: next_stream
select band, lane, rank from ready where partition = ?1 and (band, lane) > (?2, ?3) order by band, lane, rank limit 1

-- name: read_ready
select rank, job, attempt, lane from ready where partition = ? and band = ? and lane = ? and (rank, job) > (?, ?) order by rank, job limit ?

-- name: open_sessions
select id from session where ended_at is null and id in (select value from carray(?1)) and (?2 is null or node = ?2)

-- name: assign_jobs
update job set state = 'assigned', attempt = attempt + 1, started_at = ?2
where id in (select value from carray(?1)) and state = 'pending' and attempt = ?3 and (?4 is null or lane = ?4)

-- name: assigned_lanes
-- Of many jobs as one text, in the order of the array.
select group_concat(j.lane) from carray(?1) c cross join job j on j.id = c.value

-- name: assignable_jobs
-- Pending and in `ready`: a job that was moved to a later time since it was read is not.
select id, lane from job j where id in (select value from carray(?1)) and state = 'pending' and attempt = ?2 and exists (
  select 1 from ready r
  where r.partition = (((instr(?4, substr(j.id, 7, 1)) - 1 & 15) << 8) + instr(?4, substr(j.id, 8, 1)) - 1) * ?3 / 4096
    and r.band = j.band and r.lane = j.lane and r.rank = j.rank and r.job = j.id)

-- name: assigned_ready
-- A job's row says where its ready row is, so one statement serves any number of streams; ?3 is every byte in order.
delete from ready where (partition, band, lane, rank, job) in (
  select (((instr(?3, substr(id, 7, 1)) - 1 & 15) << 8) + instr(?3, substr(id, 8, 1)) - 1) * ?2 / 4096, band, lane, rank, id
  from job where id in (select value from carray(?1)))

-- name: insert_live
insert into live (session, job, attempt) select ?2, value, ?3 from carray(?1)

-- name: first_specs
-- Arguments and options of many jobs as two texts with a job a line, in the order of the array: one row, not one per job.
select cast(group_concat(s.arguments, char(10)) as blob), cast(group_concat(s.options, char(10)) as blob)
from carray(?1) c cross join spec s on s.job = c.value

-- name: read_specs
select s.job, s.arguments, s.options, j.failures from spec s join job j on j.id = s.job where s.job in (select value from carray(?1))

-- name: complete_jobs
update job set state = 'completed', finished_at = ?2, usage = null
where id in (select value from carray(?1)) and attempt = ?3 and state in ('assigned', 'running')

-- name: complete_used_jobs
-- Each value of the array is an id followed by what its attempt used.
update job set state = 'completed', finished_at = ?2, usage = nullif(substr(value, 17), x'')
from carray(?1) where id = substr(value, 1, 16) and attempt = ?3 and state in ('assigned', 'running')

-- name: is_current
select 1 from live where session = ? and job = ? and attempt = ?

-- name: finish_jobs
insert into finished (tenant, state, finished_at, job)
select tenant, state, finished_at, id from job where id in (select value from carray(?1))

-- name: insert_results
insert into result (job, data) select substr(value, 1, 16), substr(value, 17) from carray(?1)

-- name: insert_result
insert into result (job, data, outputs, expires_at) values (?, ?, ?, ?)

-- name: end_live
delete from live where session = ?2 and attempt = ?3 and job in (select value from carray(?1))

-- name: companions
-- Which of the small tables that go with a live job have rows at all.
select exists (select 1 from held), exists (select 1 from cancel), exists (select 1 from progress),
  exists (select 1 from active), exists (select 1 from edge)

-- name: release_jobs
delete from held where job in (select value from carray(?1))

-- name: release_active
delete from active where job in (select value from carray(?1))

-- name: release_cancels
delete from cancel where job in (select value from carray(?1))

-- name: release_progress
delete from progress where job in (select value from carray(?1))

-- name: insert_failure
insert or replace into failure (job, attempt, at, usage, reason, type, message, traceback) values (?, ?, ?, ?, ?, ?, ?, ?)

-- name: mark_running
update job set state = 'running' where id = ? and attempt = ? and state = 'assigned'

-- name: put_progress
insert or replace into progress (job, attempt, percent, message, at)
select id, attempt, ?3, ?4, ?5 from job where id = ?1 and attempt = ?2 and state in ('assigned', 'running')

-- name: lost_attempts
select l.session, l.job, l.attempt from session s join live l on l.session = s.id where s.ended_at is not null limit ?

-- name: list_cancelling
select job from cancel where session = ?

-- name: insert_node
insert into node (id, name, started_at, lease_until, url) values (?, ?, ?, ?, ?)

-- name: renew_lease
update node set lease_until = ? where id = ? and ended_at is null

-- name: end_node
update node set ended_at = ?2 where id = ?1 and ended_at is null and (?3 is null or lease_until = ?3)

-- name: end_node_sessions
update session set ended_at = ? where node = ? and ended_at is null and not remote

-- name: free_partitions
update partition set node = null where node = ?

-- name: list_nodes
select id, name, started_at, lease_until, capacity, draining, (select count(*) from partition p where p.node = n.id), url
from node n where ended_at is null order by started_at, id

-- name: set_capacity
update node set capacity = ?1 where id = ?2 and capacity <> ?1

-- name: drain_node
update node set draining = 1 where id = ? and ended_at is null

-- name: read_partitions
select number, node from partition order by number

-- name: own_partition
update partition set node = ?2 where number = ?1

-- name: insert_partition
insert into partition (number) values (?)

-- name: insert_session
insert into session (id, node, name, info, started_at, tenant, remote)
select ?, id, ?, ?, ?, ?, ? from node where id = ? and ended_at is null

-- name: adopt_session
update session set node = ?2 where id = ?1 and ended_at is null and remote
and (node = ?2 or node in (select id from node where ended_at is not null))
and exists (select 1 from node where id = ?2 and ended_at is null)

-- name: live_jobs
select l.job, l.attempt, j.lane, s.options from live l join job j on j.id = l.job join spec s on s.job = l.job where l.session = ?

-- name: list_orphans
select s.id, s.node from session s join node n on n.id = s.node where s.ended_at is null and n.ended_at is not null

-- name: list_sessions
select s.id, s.node, s.name, s.started_at, s.info, (select count(*) from live where live.session = s.id), s.tenant, s.remote
from session s where s.ended_at is null order by s.started_at, s.id

-- name: read_sessions
select id, node, name, started_at, info, 0, tenant, remote from session where ended_at is null and id in (select value from carray(?1))

-- name: find_session
-- A step per session, not per live job.
select l.session from session s join live l on l.session = s.id and l.job = ?

-- name: end_session
update session set ended_at = ?1 where id = ?2 and ended_at is null and (?3 is null or node = ?3)

-- name: forget_limits
-- A rate that was free an hour ago is as good as one never used.
delete from limit_state where next_free_at < ?1

-- name: forget_sessions
-- Sessions and nodes that ended and have nothing live any more.
delete from session where ended_at < ?1 and not exists (select 1 from live where live.session = session.id)

-- name: forget_nodes
delete from node where ended_at < ?1 and not exists (select 1 from session where session.node = node.id)

-- name: forget_progress
-- What code of schema 2 has left behind.
delete from progress where not exists (
  select 1 from job j where j.id = progress.job and j.attempt = progress.attempt and j.state in ('assigned', 'running'))

-- name: read_lanes
select number, definition from lane where number in (select value from carray(?1))

-- name: put_lane
insert or ignore into lane (number, definition) values (?, ?)

-- name: put_queue
insert or replace into queue (tenant, name, paused) values (?, ?, ?)

-- name: list_queues
select q.tenant, q.name, q.paused, l.concurrency, l.rate, l.burst from queue q
left join limit_rule l on l.name = 'queue/' || q.tenant || '/' || q.name order by 1, 2

-- name: put_kind
insert or replace into kind (name, defaults) values (?, ?)

-- name: put_setting
insert or ignore into setting (name, value) values (?, ?)

-- name: read_setting
select value from setting where name = ?

-- name: add_kind
insert or ignore into kind (name, defaults) values (?, ?)

-- name: list_kinds
select name, defaults from kind order by name

-- name: put_limit
insert or replace into limit_rule (name, concurrency, rate, burst) values (?, ?, ?, ?)

-- name: delete_limit
delete from limit_rule where name = ?

-- name: list_limits
select name, concurrency, rate, burst from limit_rule

-- name: read_limit
select concurrency, rate, burst from limit_rule where name = ?

-- name: count_held
select count(*) from held where name = ? and key = ?

-- name: insert_held
insert into held (job, name, key) select value, ?2, ?3 from carray(?1)

-- name: read_limit_state
select next_free_at from limit_state where name = ? and key = ?

-- name: put_limit_state
insert or replace into limit_state (name, key, next_free_at) values (?, ?, ?)

-- name: insert_schedule
insert or ignore into schedule (id, tenant, name, definition, origin, paused, watermark_at, runs, next_at, version)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, 1)

-- name: replace_schedule
update schedule set definition = ?3, origin = ?4, paused = ?5, watermark_at = ?6, runs = ?7, next_at = ?8, version = version + 1
where id = ?1 and version = ?2

-- name: delete_schedule
delete from schedule where id = ?

-- name: list_schedules
select id, tenant, name, definition, origin, paused, watermark_at, runs, next_at, version from schedule
where ?1 is null or tenant = ?1 order by id

-- name: read_schedule
select id, tenant, name, definition, origin, paused, watermark_at, runs, next_at, version from schedule where id = ?

-- name: count_active
-- Jobs of a schedule that have started or wait to retry, and those that wait for their first start.
select count(*) filter (where j.attempt > 0), count(*) filter (where j.attempt = 0)
from active a join job j on j.id = a.job where a.schedule = ?

-- name: due_schedules
select id, tenant, name, definition, origin, paused, watermark_at, runs, next_at, version from schedule
where paused = 0 and next_at is not null and next_at <= ? order by next_at limit ?

-- name: next_schedule
select min(next_at) from schedule where paused = 0 and next_at is not null and next_at > ?

-- name: advance_schedule
update schedule set watermark_at = ?3, next_at = ?4, runs = ?5, version = version + 1 where id = ?1 and version = ?2

-- name: insert_occurrence
insert or ignore into occurrence (schedule, occurrence_at, job) values (?, ?, ?)

-- name: insert_active
insert into active (job, schedule) values (?, ?)

-- name: last_active
-- The end of a schedule's chain: the jobs of it that no other one waits for. More than one after a replay, or where its rule changed.
select job from active a where schedule = ? and not exists (select 1 from edge where parent = a.job)

-- name: active_jobs
select job from active where schedule = ?

-- name: insert_missed
insert or replace into missed (schedule, last_at, first_at, count, reason) values (?, ?, ?, ?, ?)

-- name: list_missed
select schedule, first_at, last_at, count, reason from missed where schedule = ? order by last_at desc limit ?

-- name: ended_tenants
-- A loose scan over the tenants that have finished jobs.
with recursive t (tenant) as (
  select min(tenant) from finished
  union all select (select min(tenant) from finished where tenant > t.tenant) from t where t.tenant is not null)
select tenant from t where tenant is not null

-- name: prunable_jobs
select f.finished_at, f.job from finished f left join claim c on c.job = f.job
where f.tenant = ?1 and f.state = ?2 and f.finished_at < ?3
  and (c.job is null or (select created_at from job where id = f.job) < ?4)
order by f.finished_at limit ?5

-- name: prune_finished
delete from finished where tenant = ?2 and state = ?3 and finished_at <= ?4 and job in (select value from carray(?1))

-- name: prune_job
delete from job where id in (select value from carray(?1))

-- name: prune_spec
delete from spec where job in (select value from carray(?1))

-- name: list_expired
select job, outputs is not null from result where expires_at <= ?1 order by expires_at, job limit ?2

-- name: expire_results
update result set data = x'', outputs = null, expires_at = null
where job in (select value from carray(?1)) and expires_at <= ?2

-- name: prune_result
delete from result where job in (select value from carray(?1))

-- name: prune_failure
delete from failure where job in (select value from carray(?1))

-- name: prune_expiry
-- Found by what the job's options say: the table itself is ordered by time.
delete from expiry where (partition, start_by, job) in (
  select (((instr(?3, substr(job, 7, 1)) - 1 & 15) << 8) + instr(?3, substr(job, 8, 1)) - 1) * ?2 / 4096, options ->> '$.start_by', job
  from spec where job in (select value from carray(?1)) and options ->> '$.start_by' is not null)

-- name: prune_claim
delete from claim where job in (select value from carray(?1))

-- name: prune_occurrence
delete from occurrence where job in (select value from carray(?1))

-- name: prune_missed
delete from missed where last_at < ?1

-- name: put_tenant
-- Changes nothing about one that has been erased.
insert into tenant (name, quota, created_at) values (?1, ?2, ?3)
on conflict (name) do update set quota = excluded.quota where erased_at is null

-- name: list_tenants
select name, quota, created_at, erased_at, sealed from tenant order by name

-- name: seal_tenant
insert into tenant (name, quota, created_at, sealed) values (?1, ?2, ?3, ?4)
on conflict (name) do update set sealed = excluded.sealed where erased_at is null

-- name: count_waiting
select lane, count(*) from (select lane from timer union all select lane from ready) group by lane

-- name: mark_erased
insert into tenant (name, quota, created_at, erased_at) values (?1, ?2, ?3, ?3)
on conflict (name) do update set quota = excluded.quota, erased_at = excluded.erased_at where erased_at is null

-- name: ended_jobs_of
-- The jobs of a tenant that are found without looking at those of others.
select job from finished where tenant = ?1 limit ?2

-- name: other_jobs_of
-- A step per job of the store: no table has the waiting and live jobs of one tenant.
select id from job where tenant = ?1 limit ?2

-- name: erase_live
delete from live where (session, job) in (
  select l.session, l.job from session s join live l on l.session = s.id and l.job in (select value from carray(?1)))

-- name: erase_finished
delete from finished where (tenant, state, finished_at, job) in (
  select tenant, state, finished_at, id from job where id in (select value from carray(?1)) and finished_at is not null)

-- name: erase_timer
delete from timer where (partition, due_at, job) in (
  select (((instr(?3, substr(id, 7, 1)) - 1 & 15) << 8) + instr(?3, substr(id, 8, 1)) - 1) * ?2 / 4096, due_at, id
  from job where id in (select value from carray(?1)) and state = 'pending')

-- name: erase_children
delete from edge where child in (select value from carray(?1))

-- name: erase_schedules
delete from schedule where tenant = ?1

-- name: erase_missed
-- ?2 and ?3 hold between them every name that begins with the tenant and a slash.
delete from missed where schedule > ?2 and schedule < ?3

-- name: erase_queues
delete from queue where tenant = ?1

-- name: erase_limits
delete from limit_rule where name = 'tenant/' || ?1 or (name > 'queue/' || ?2 and name < 'queue/' || ?3)

-- name: erase_limit_states
delete from limit_state where name = 'tenant/' || ?1 or (name > 'queue/' || ?2 and name < 'queue/' || ?3) or (key >= ?2 and key < ?3)

-- name: erase_lanes
delete from lane where definition ->> '$.tenant' = ?1

-- name: erase_sessions
delete from session where tenant = ?1

-- name: erase_templates
delete from template where tenant = ?1

-- name: erase_template_versions
delete from template_version where tenant = ?1

-- name: erase_shares
-- Out of the lists of others.
update template set shared_with = (select json_group_array(value) from json_each(shared_with) where value <> ?1)
where exists (select 1 from json_each(shared_with) where value = ?1)

-- name: erase_keys
delete from access_key where tenant = ?1

-- name: erase_secrets
delete from secret where tenant = ?1

-- name: erase_audit
update audit set content = null where tenant = ?1 and content is not null

-- name: insert_key
insert into access_key (id, digest, name, role, tenant, created_at, created_by, requests_per_s, expires_at, revoked_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: spend_key
update access_key set revoked_at = ?2 where id = ?1 and revoked_at is null and (expires_at is null or expires_at > ?2)

-- name: revoke_key
update access_key set revoked_at = ?2 where id = ?1 and revoked_at is null

-- name: read_key
select id, digest, name, role, tenant, created_at, created_by, requests_per_s, expires_at, revoked_at from access_key where id = ?

-- name: list_keys
select id, digest, name, role, tenant, created_at, created_by, requests_per_s, expires_at, revoked_at from access_key
where ?1 is null or tenant = ?1 order by created_at, id

-- name: put_secret
insert into secret (tenant, name, key, sealed, changed_at, changed_by) values (?, ?, ?, ?, ?, ?)
on conflict (tenant, name) do update
set key = excluded.key, sealed = excluded.sealed, changed_at = excluded.changed_at, changed_by = excluded.changed_by

-- name: read_secret
select tenant, name, key, sealed, changed_at, changed_by from secret where tenant = ? and name = ?

-- name: list_secrets
select tenant, name, key, sealed, changed_at, changed_by from secret where ?1 is null or tenant = ?1 order by tenant, name

-- name: delete_secret
delete from secret where tenant = ? and name = ?

-- name: sealed_secret
-- The rows behind a place, with what is sealed in them where that does not begin with ?3.
select tenant || '/' || name, case when substr(sealed, 1, length(?3)) <> ?3 then sealed end from secret
where (tenant, name) > (substr(?1, 1, instr(?1, '/') - 1), substr(?1, instr(?1, '/') + 1)) order by tenant, name limit ?2

-- name: sealed_arguments
select lower(hex(job)), case when substr(arguments, 1, length(?4)) = ?4 and substr(arguments, 1, length(?3)) <> ?3 then arguments end
from spec where job > unhex(?1) order by job limit ?2

-- name: sealed_result
select lower(hex(job)), case when substr(data, 1, length(?4)) = ?4 and substr(data, 1, length(?3)) <> ?3 then data end
from result where job > unhex(?1) order by job limit ?2

-- name: replace_secret
update secret set sealed = ?3, key = ?4
where tenant = substr(?1, 1, instr(?1, '/') - 1) and name = substr(?1, instr(?1, '/') + 1) and sealed = ?2

-- name: replace_arguments
update spec set arguments = ?3 where job = unhex(?1) and arguments = ?2

-- name: replace_result
update result set data = ?3 where job = unhex(?1) and data = ?2

-- name: last_template_version
select max(version) from template_version where tenant = ? and name = ?

-- name: insert_template_version
insert into template_version (tenant, name, version, definition, created_at, created_by) values (?, ?, ?, ?, ?, ?)

-- name: put_template
insert into template (tenant, name, current, shared_with) values (?, ?, ?, ?)
on conflict (tenant, name) do update set current = excluded.current

-- name: set_template
update template set current = coalesce(?3, current), shared_with = coalesce(?4, shared_with) where tenant = ?1 and name = ?2
  and exists (select 1 from template_version where tenant = ?1 and name = ?2 and version = coalesce(?3, template.current))

-- name: list_templates
select t.tenant, t.name, v.version, v.definition, v.created_at, v.created_by, t.current, t.shared_with
from template t join template_version v on v.tenant = t.tenant and v.name = t.name and v.version = t.current
where t.tenant = ?1 or exists (select 1 from json_each(t.shared_with) where value in (?1, ?2))
order by t.tenant, t.name

-- name: list_template_versions
select t.tenant, t.name, v.version, v.definition, v.created_at, v.created_by, t.current, t.shared_with
from template t join template_version v on v.tenant = t.tenant and v.name = t.name
where t.tenant = ?1 and t.name = ?2 order by v.version desc

-- name: delete_template
delete from template where tenant = ? and name = ?

-- name: delete_template_versions
delete from template_version where tenant = ? and name = ?

-- name: last_audit
select number, hash from audit where tenant = ? order by number desc limit 1

-- name: insert_audit
insert into audit (tenant, number, at, content, digest, hash) values (?, ?, ?, ?, ?, ?)

-- name: list_audit
select tenant, number, at, content, digest, hash from audit where tenant = ?1 and number > ?2 order by number limit ?3
