-- What attempts use, files beside results, secrets. Code of schema 1 needs none of it.
-- works with: 1

alter table mainspring.job add column usage bytea;
alter table mainspring.failure add column usage bytea;

-- `outputs`: the list of an attempt's files, as JSON. A result that is one of them has 'null' as its data. `expires_at`: when
-- both go, where that is before the job does.
alter table mainspring.result add column outputs bytea;
alter table mainspring.result add column expires_at bigint;
create index result_expires on mainspring.result (expires_at) where expires_at is not null;

-- `sealed`: the value, encrypted with the key named `key`, which is never stored.
create table mainspring.secret (
  tenant text not null,
  name text not null,
  key text not null,
  sealed bytea not null,
  changed_at bigint not null,
  changed_by text not null,
  primary key (tenant, name)
);

-- `sealed`: arguments and results of its jobs are stored encrypted.
alter table mainspring.tenant add column sealed boolean not null default false;
