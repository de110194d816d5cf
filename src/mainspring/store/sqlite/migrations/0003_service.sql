-- What the service keeps: how far attempts are, tenants, keys, templates, audit chains. Code of schema 1 needs none of it.
-- works with: 1
alter table node add column url text;
alter table session add column tenant text;
alter table session add column remote integer not null default 0;

-- What live attempts said last; a row goes with its live row.
create table progress (
  job blob primary key,
  attempt integer not null,
  percent real not null,
  message text not null,
  at integer not null
) without rowid;

create table tenant (
  name text primary key,
  quota blob not null,
  created_at integer not null,
  erased_at integer
) without rowid;

create table access_key (
  id text primary key,
  digest blob not null,
  name text not null,
  role text not null,
  tenant text not null,
  created_at integer not null,
  created_by text not null,
  requests_per_s real,
  expires_at integer,
  revoked_at integer
) without rowid;

create table template (
  tenant text not null,
  name text not null,
  current integer not null,
  shared_with text not null,  -- a JSON list of tenants
  primary key (tenant, name)
) without rowid;

create table template_version (
  tenant text not null,
  name text not null,
  version integer not null check (version > 0),
  definition blob not null,
  created_at integer not null,
  created_by text not null,
  primary key (tenant, name, version)
);

-- One chain per tenant. The content goes when its tenant is erased, the hashes stay.
create table audit (
  tenant text not null,
  number integer not null check (number > 0),
  at integer not null,
  content blob,
  digest blob not null,
  hash blob not null,
  primary key (tenant, number)
) without rowid;
