-- Partitions are shared by what nodes can run, and a node can be asked to leave.
-- works with: 1
alter table node add column capacity integer not null default 1 check (capacity >= 0);
alter table node add column draining integer not null default 0 check (draining in (0, 1));
