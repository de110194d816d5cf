-- What attempts use, files beside results, secrets. Code of schema 1 needs none of it.
-- works with: 1
alter table job add column usage blob;
alter table failure add column usage blob;

-- `outputs`: the list of an attempt's files, as JSON. A result that is one of them has 'null' as its data. `expires_at`: when
-- both go, where that is before the job does.
alter table result add column outputs blob;
alter table result add column expires_at integer;
create index result_expires on result (expires_at) where expires_at is not null;

-- `sealed`: the value, encrypted with the key named `key`, which is never stored.
create table secret (
  tenant text not null,
  name text not null,
  key text not null,
  sealed blob not null,
  changed_at integer not null,
  changed_by text not null,
  primary key (tenant, name)
) without rowid;

-- `sealed`: arguments and results of its jobs are stored encrypted.
alter table tenant add column sealed integer not null default 0;
