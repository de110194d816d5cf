-- What the service keeps: how far attempts are, tenants, keys, templates, audit chains. Code of schema 1 needs none of it.
-- works with: 1

alter table mainspring.node add column url text;
alter table mainspring.session add column tenant text;
alter table mainspring.session add column remote boolean not null default false;

-- What live attempts said last; a row goes with its live row. Updated in place, so half of each page is left free.
create table mainspring.progress (
  job uuid primary key,
  attempt integer not null,
  percent double precision not null,
  message text not null,
  at bigint not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create table mainspring.tenant (
  name text primary key,
  quota bytea not null,
  created_at bigint not null,
  erased_at bigint
);

create table mainspring.access_key (
  id text primary key,
  digest bytea not null,
  name text not null,
  role text not null,
  tenant text not null,
  created_at bigint not null,
  created_by text not null,
  requests_per_s double precision,
  expires_at bigint,
  revoked_at bigint
);

create table mainspring.template (
  tenant text not null,
  name text not null,
  current integer not null,
  shared_with text[] not null,
  primary key (tenant, name)
);

create table mainspring.template_version (
  tenant text not null,
  name text not null,
  version integer not null check (version > 0),
  definition bytea not null,
  created_at bigint not null,
  created_by text not null,
  primary key (tenant, name, version)
);

-- One chain per tenant. The content goes when its tenant is erased, the hashes stay.
create table mainspring.audit (
  tenant text not null,
  number bigint not null check (number > 0),
  at bigint not null,
  content bytea,
  digest bytea not null,
  hash bytea not null,
  primary key (tenant, number)
);
