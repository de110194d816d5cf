CREATE SCHEMA mainspring;
CREATE FUNCTION mainspring.slot_of(id uuid) RETURNS integer
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (((get_byte(uuid_send(id), 6) & 15) << 8) | get_byte(uuid_send(id), 7));
CREATE TABLE mainspring.access_key (
    id text NOT NULL,
    digest bytea NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    tenant text NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    requests_per_s double precision,
    expires_at bigint,
    revoked_at bigint
);
CREATE TABLE mainspring.active (
    job uuid NOT NULL,
    schedule text NOT NULL
);
CREATE TABLE mainspring.audit (
    tenant text NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    content bytea,
    digest bytea NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT audit_number_check CHECK ((number > 0))
);
CREATE TABLE mainspring.cancel (
    job uuid NOT NULL,
    session bytea NOT NULL,
    reason text NOT NULL
);
CREATE TABLE mainspring.claim (
    tenant text NOT NULL,
    key text NOT NULL,
    job uuid NOT NULL,
    digest bytea NOT NULL,
    expires_at bigint
);
CREATE TABLE mainspring.edge (
    parent uuid NOT NULL,
    child uuid NOT NULL,
    rule text NOT NULL,
    CONSTRAINT edge_rule_check CHECK ((rule = ANY (ARRAY['completed'::text, 'ended'::text])))
);
CREATE TABLE mainspring.expiry (
    partition smallint NOT NULL,
    start_by bigint NOT NULL,
    job uuid NOT NULL
);
CREATE TABLE mainspring.failure (
    job uuid NOT NULL,
    attempt integer NOT NULL,
    at bigint NOT NULL,
    reason text NOT NULL,
    type text NOT NULL,
    message text NOT NULL,
    traceback text NOT NULL
);
CREATE TABLE mainspring.finished (
    tenant text NOT NULL,
    state text NOT NULL,
    finished_at bigint NOT NULL,
    job uuid NOT NULL,
    CONSTRAINT finished_state_check CHECK ((state = ANY (ARRAY['completed'::text, 'failed'::text, 'cancelled'::text])))
)
WITH (autovacuum_vacuum_scale_factor='0.05');
CREATE TABLE mainspring.held (
    job uuid NOT NULL,
    name text NOT NULL,
    key text NOT NULL
);
CREATE TABLE mainspring.job (
    id uuid NOT NULL,
    tenant text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    priority smallint NOT NULL,
    band smallint NOT NULL,
    lane bigint NOT NULL,
    rank bigint NOT NULL,
    due_at bigint NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    losses integer DEFAULT 0 NOT NULL,
    cancelling boolean DEFAULT false NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    finished_at bigint,
    reason text,
    CONSTRAINT job_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT job_band_check CHECK (((band >= 0) AND (band <= 2))),
    CONSTRAINT job_priority_check CHECK (((priority >= 1) AND (priority <= 10))),
    CONSTRAINT job_state_check CHECK ((state = ANY (ARRAY['blocked'::text, 'pending'::text, 'assigned'::text, 'running'::text, 'skipped'::text, 'completed'::text, 'failed'::text, 'cancelled'::text])))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_insert_scale_factor='0.1');
CREATE TABLE mainspring.kind (
    name text NOT NULL,
    defaults bytea NOT NULL
);
CREATE TABLE mainspring.lane (
    number bigint NOT NULL,
    definition bytea NOT NULL
);
CREATE TABLE mainspring.limit_rule (
    name text NOT NULL,
    concurrency integer,
    rate double precision,
    burst integer NOT NULL,
    CONSTRAINT limit_rule_burst_check CHECK ((burst > 0)),
    CONSTRAINT limit_rule_concurrency_check CHECK ((concurrency > 0)),
    CONSTRAINT limit_rule_rate_check CHECK ((rate > (0)::double precision))
);
CREATE TABLE mainspring.limit_state (
    name text NOT NULL,
    key text NOT NULL,
    next_free_at bigint NOT NULL
);
CREATE TABLE mainspring.live (
    session bytea NOT NULL,
    job uuid NOT NULL,
    attempt integer NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');
CREATE TABLE mainspring.mark (
    at bigint NOT NULL,
    id bytea NOT NULL,
    committed boolean NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');
CREATE TABLE mainspring.migration (
    number integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL,
    works_with integer NOT NULL
);
CREATE TABLE mainspring.missed (
    schedule text NOT NULL,
    last_at bigint NOT NULL,
    first_at bigint NOT NULL,
    count bigint,
    reason text NOT NULL
);
CREATE TABLE mainspring.node (
    id bytea NOT NULL,
    name text NOT NULL,
    started_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    ended_at bigint,
    capacity integer DEFAULT 1 NOT NULL,
    draining boolean DEFAULT false NOT NULL,
    url text,
    CONSTRAINT node_capacity_check CHECK ((capacity >= 0))
);
CREATE TABLE mainspring.occurrence (
    schedule text NOT NULL,
    occurrence_at bigint NOT NULL,
    job uuid NOT NULL
);
CREATE TABLE mainspring.partition (
    number smallint NOT NULL,
    node bytea
);
CREATE TABLE mainspring.progress (
    job uuid NOT NULL,
    attempt integer NOT NULL,
    percent double precision NOT NULL,
    message text NOT NULL,
    at bigint NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');
CREATE TABLE mainspring.queue (
    tenant text NOT NULL,
    name text NOT NULL,
    paused boolean NOT NULL
);
CREATE TABLE mainspring.ready (
    partition smallint NOT NULL,
    band smallint NOT NULL,
    lane bigint NOT NULL,
    rank bigint NOT NULL,
    job uuid NOT NULL,
    attempt integer NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');
CREATE TABLE mainspring.result (
    job uuid NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE mainspring.schedule (
    id text NOT NULL,
    tenant text NOT NULL,
    name text NOT NULL,
    definition bytea NOT NULL,
    origin text NOT NULL,
    paused boolean NOT NULL,
    watermark_at bigint NOT NULL,
    runs bigint NOT NULL,
    next_at bigint,
    version bigint NOT NULL,
    CONSTRAINT schedule_origin_check CHECK ((origin = ANY (ARRAY['code'::text, 'user'::text])))
);
CREATE TABLE mainspring.session (
    id bytea NOT NULL,
    node bytea NOT NULL,
    name text NOT NULL,
    info bytea,
    started_at bigint NOT NULL,
    ended_at bigint,
    tenant text,
    remote boolean DEFAULT false NOT NULL
);
CREATE TABLE mainspring.setting (
    name text NOT NULL,
    value text NOT NULL
);
CREATE TABLE mainspring.spec (
    job uuid NOT NULL,
    arguments bytea NOT NULL,
    options bytea NOT NULL
);
CREATE TABLE mainspring.template (
    tenant text NOT NULL,
    name text NOT NULL,
    current integer NOT NULL,
    shared_with text[] NOT NULL
);
CREATE TABLE mainspring.template_version (
    tenant text NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    definition bytea NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    CONSTRAINT template_version_version_check CHECK ((version > 0))
);
CREATE TABLE mainspring.tenant (
    name text NOT NULL,
    quota bytea NOT NULL,
    created_at bigint NOT NULL,
    erased_at bigint
);
CREATE TABLE mainspring.timer (
    partition smallint NOT NULL,
    due_at bigint NOT NULL,
    job uuid NOT NULL,
    band smallint NOT NULL,
    lane bigint NOT NULL,
    rank bigint NOT NULL,
    attempt integer NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');
INSERT INTO mainspring.active VALUES
	('01ba60d3-3800-7d92-98af-f6e89d4156e7', 'default/s'),
	('01ba60d3-3800-7d92-ae8e-f354cb2225f0', 'default/s');
INSERT INTO mainspring.cancel VALUES
	('01ba60d3-3800-7ec3-970b-3535ee99a986', '\x697473206f6e6c792073657373696f6e', 'requested');
INSERT INTO mainspring.claim VALUES
	('default', 'order 7', '01ba60d3-3800-7330-9dab-ea18e57b9765', '\x44c9c5fe095577ddc1f1d75076466b53', NULL),
	('default', 'unique:44c9c5fe095577ddc1f1d75076466b53', '01ba60d3-3800-7098-93d9-78fc859deecb', '\x44c9c5fe095577ddc1f1d75076466b53', 1900003600000000);
INSERT INTO mainspring.edge VALUES
	('01ba60d3-3800-7de6-841c-76ab53dc6ce8', '01ba60d3-3800-7de6-ab55-c77cb5ecac68', 'ended'),
	('01ba60d3-3800-7d92-98af-f6e89d4156e7', '01ba60d3-3800-7d92-ae8e-f354cb2225f0', 'ended');
INSERT INTO mainspring.expiry VALUES
	(18, 1900003600000000, '01ba60d3-3800-74be-8464-b1299b408b86'),
	(50, 1900003600000000, '01ba60d3-3800-7cbe-8fd2-01fe44e3662d');
INSERT INTO mainspring.failure VALUES
	('01ba60d3-3800-71c4-9efa-e4c470fc3cd6', 1, 1900000000000000, 'error', 'ValueError', 'no', 'Traceback: no'),
	('01ba60d3-3800-75ac-a6f0-b45fdad78c0a', 1, 1900000000000000, 'error', 'ValueError', 'no', 'Traceback: no');
INSERT INTO mainspring.finished VALUES
	('default', 'completed', 1900000000000000, '01ba60d3-3800-7cae-a6df-a14b10c412d9'),
	('default', 'failed', 1900000000000000, '01ba60d3-3800-71c4-9efa-e4c470fc3cd6'),
	('default', 'cancelled', 1900000000000000, '01ba60d3-3800-782a-9aca-b6cc88ed9b4a');
INSERT INTO mainspring.held VALUES
	('01ba60d3-3800-7450-aeff-9252fcbaaaff', 'queue/default/narrow', '');
INSERT INTO mainspring.job VALUES
	('01ba60d3-3800-7cae-a6df-a14b10c412d9', 'default', 'default', 'work', 'completed', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 1, 0, 0, false, 1900000000000000, 1900000000000000, 1900000000000000, NULL),
	('01ba60d3-3800-71c4-9efa-e4c470fc3cd6', 'default', 'default', 'work', 'failed', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 1, 1, 0, false, 1900000000000000, 1900000000000000, 1900000000000000, 'error'),
	('01ba60d3-3800-75ac-a6f0-b45fdad78c0a', 'default', 'default', 'work', 'pending', 5, 1, 2147786583275984534, 1899985630000000, 1900000030000000, 1, 1, 0, false, 1900000000000000, 1900000000000000, NULL, NULL),
	('01ba60d3-3800-7bea-be63-e921dec99d6a', 'default', 'default', 'work', 'running', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 1, 0, 0, false, 1900000000000000, 1900000000000000, NULL, NULL),
	('01ba60d3-3800-7ec3-970b-3535ee99a986', 'default', 'default', 'work', 'assigned', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 1, 0, 0, true, 1900000000000000, 1900000000000000, NULL, NULL),
	('01ba60d3-3800-7c50-bb04-da6905b7a8ac', 'default', 'narrow', 'work', 'pending', 5, 1, 3946226539133356822, 1899985600000001, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-7450-aeff-9252fcbaaaff', 'default', 'narrow', 'work', 'assigned', 5, 1, 3946226539133356822, 1899985600000000, 1900000000000000, 1, 0, 0, false, 1900000000000000, 1900000000000000, NULL, NULL),
	('01ba60d3-3800-70e1-a4e2-608e692e924c', 'default', 'default', 'work', 'pending', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-7636-b822-301113f66065', 'default', 'default', 'work', 'pending', 5, 1, 2147786583275984534, 1899985600000001, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-7b8c-ba44-56261517ed59', 'default', 'default', 'work', 'pending', 5, 1, 2147786583275984534, 1899985600000002, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-74be-8464-b1299b408b86', 'default', 'default', 'work', 'pending', 5, 1, 2147786583275984534, 1899985660000000, 1900000060000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-7cbe-8fd2-01fe44e3662d', 'default', 'default', 'work', 'pending', 5, 1, 2147786583275984534, 1899985660000001, 1900000060000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-7330-9dab-ea18e57b9765', 'default', 'default', 'work', 'pending', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-7098-93d9-78fc859deecb', 'default', 'default', 'work', 'pending', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-782a-9aca-b6cc88ed9b4a', 'default', 'default', 'work', 'cancelled', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, 1900000000000000, 'requested'),
	('01ba60d3-3800-7de6-841c-76ab53dc6ce8', 'default', 'default', 'work', 'pending', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-7de6-ab55-c77cb5ecac68', 'default', 'default', 'work', 'blocked', 5, 1, 2147786583275984534, 1899985600000000, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-7d92-98af-f6e89d4156e7', 'default', 'default', 'tick', 'pending', 5, 1, -830074270034629689, 1899985600000000, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL),
	('01ba60d3-3800-7d92-ae8e-f354cb2225f0', 'default', 'default', 'tick', 'blocked', 5, 1, -830074270034629689, 1899985600000000, 1900000000000000, 0, 0, 0, false, 1900000000000000, NULL, NULL, NULL);
INSERT INTO mainspring.kind VALUES
	('work', '\x7b7d');
INSERT INTO mainspring.lane VALUES
	(2147786583275984534, '\x7b2274656e616e74223a2264656661756c74222c227175657565223a2264656661756c74222c226b696e64223a22776f726b222c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d2c226c696d69745f6b6579223a6e756c6c7d'),
	(3946226539133356822, '\x7b2274656e616e74223a2264656661756c74222c227175657565223a226e6172726f77222c226b696e64223a22776f726b222c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d2c226c696d69745f6b6579223a6e756c6c7d'),
	(-830074270034629689, '\x7b2274656e616e74223a2264656661756c74222c227175657565223a2264656661756c74222c226b696e64223a227469636b222c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d2c226c696d69745f6b6579223a6e756c6c7d');
INSERT INTO mainspring.limit_rule VALUES
	('queue/default/narrow', 1, NULL, 1),
	('kind/work', NULL, 100, 100);
INSERT INTO mainspring.live VALUES
	('\x697473206f6e6c792073657373696f6e', '01ba60d3-3800-7bea-be63-e921dec99d6a', 1),
	('\x697473206f6e6c792073657373696f6e', '01ba60d3-3800-7ec3-970b-3535ee99a986', 1),
	('\x697473206f6e6c792073657373696f6e', '01ba60d3-3800-7450-aeff-9252fcbaaaff', 1);
INSERT INTO mainspring.mark VALUES
	(1900000000000000, '\x73133ac895e73ae0b3ca7f92', true),
	(1900000000000000, '\x21678440a8bf820ee1f9253e', true),
	(1900000000000000, '\x19466e3266dffbfe57ab4be6', true),
	(1900000000000000, '\xb8fab8454dfe8decd763c046', true),
	(1900000000000000, '\xd873fffac663f5b4f4e03dcd', true),
	(1900000000000000, '\xdfb8a1a89fc73f5de71a2433', true),
	(1900000000000000, '\xab9e87267f459e0a82cf7340', true),
	(1900000000000000, '\xd9ca6e7afc002ab4d8e93e8a', true),
	(1900000000000000, '\xd5f9b999306d13c8dc4c8820', true),
	(1900000000000000, '\x34e1e8d140428abcbc275711', true),
	(1900000000000000, '\xe760c32e41894178fb78af08', true),
	(1900000000000000, '\xeec2e653f638817f49558b7e', true),
	(1900000000000000, '\xe9f5a99ff156e6f81e3724c3', true),
	(1900000000000000, '\xdf0ce3ce8dd5d6c21bec2d1a', true),
	(1900000000000000, '\xb3676e54d2f63cd146dad303', true),
	(1900000000000000, '\xd0600fdf402f7dc963c31258', true),
	(1900000000000000, '\x15f2398624709b7a87c4dc15', true),
	(1900000000000000, '\x9b76fe4bd59613e6ad147d2e', true),
	(1900000000000000, '\xd61aa3ba0e71453b71fbcf51', true),
	(1900000000000000, '\x9837b01ffc5764614f799f49', true),
	(1900000000000000, '\x21cff88bb95d093cbb161d52', true),
	(1900000000000000, '\x9adb5b2fc026c1c16dafd4d0', true),
	(1900000000000000, '\x0d6f0aae8c31582f788b9356', true),
	(1900000000000000, '\x7d75762b797ed71093202aeb', true),
	(1900000000000000, '\x6a71697b9df08fbf82c94b4f', true),
	(1900000000000000, '\x9ef9161ed75bc5927a5ddde2', true),
	(1900000000000000, '\x1e1856b06e3717dbda5de442', true),
	(1900000000000000, '\x0c7d6a370360bd795194d85b', true),
	(1900000000000000, '\xfb712c8d9e1363761f7e35c4', true),
	(1900000000000000, '\xb0e900275b427cd4318c4558', true),
	(1900000000000000, '\x3d64797e51a97611f559d9a7', true),
	(1900000000000000, '\xf0c645d96f974fa333f8cc81', true),
	(1900000000000000, '\x67566ab98e72073857812ff2', true);
INSERT INTO mainspring.migration VALUES
	(1, 'tables', 'e2f0f5e63825c0a16fd586d6fcb93b8a2fb8d26e8a7169f8b7a53ed445390322', '2026-11-16 06:14:22.049236+00', 1),
	(2, 'service', '0a44a13239dd101c2662702ff670392be26e7000751cfc27ac9a7380b9168da8', '2026-11-16 06:14:22.049236+00', 1);
INSERT INTO mainspring.missed VALUES
	('default/s', 1900000000000000, 1900000000000000, 1, 'overlap');
INSERT INTO mainspring.node VALUES
	('\x6e6f6465206f66206120736368656d61', 'node', 1900000000000000, 1900000010000000, NULL, 1, false, NULL);
INSERT INTO mainspring.occurrence VALUES
	('default/s', 1900000060000000, '01ba60d3-3800-7d92-98af-f6e89d4156e7'),
	('default/s', 1900000120000000, '01ba60d3-3800-7d92-ae8e-f354cb2225f0');
INSERT INTO mainspring.partition VALUES
	(0, '\x6e6f6465206f66206120736368656d61'),
	(1, '\x6e6f6465206f66206120736368656d61'),
	(2, '\x6e6f6465206f66206120736368656d61'),
	(3, '\x6e6f6465206f66206120736368656d61'),
	(4, '\x6e6f6465206f66206120736368656d61'),
	(5, '\x6e6f6465206f66206120736368656d61'),
	(6, '\x6e6f6465206f66206120736368656d61'),
	(7, '\x6e6f6465206f66206120736368656d61'),
	(8, '\x6e6f6465206f66206120736368656d61'),
	(9, '\x6e6f6465206f66206120736368656d61'),
	(10, '\x6e6f6465206f66206120736368656d61'),
	(11, '\x6e6f6465206f66206120736368656d61'),
	(12, '\x6e6f6465206f66206120736368656d61'),
	(13, '\x6e6f6465206f66206120736368656d61'),
	(14, '\x6e6f6465206f66206120736368656d61'),
	(15, '\x6e6f6465206f66206120736368656d61'),
	(16, '\x6e6f6465206f66206120736368656d61'),
	(17, '\x6e6f6465206f66206120736368656d61'),
	(18, '\x6e6f6465206f66206120736368656d61'),
	(19, '\x6e6f6465206f66206120736368656d61'),
	(20, '\x6e6f6465206f66206120736368656d61'),
	(21, '\x6e6f6465206f66206120736368656d61'),
	(22, '\x6e6f6465206f66206120736368656d61'),
	(23, '\x6e6f6465206f66206120736368656d61'),
	(24, '\x6e6f6465206f66206120736368656d61'),
	(25, '\x6e6f6465206f66206120736368656d61'),
	(26, '\x6e6f6465206f66206120736368656d61'),
	(27, '\x6e6f6465206f66206120736368656d61'),
	(28, '\x6e6f6465206f66206120736368656d61'),
	(29, '\x6e6f6465206f66206120736368656d61'),
	(30, '\x6e6f6465206f66206120736368656d61'),
	(31, '\x6e6f6465206f66206120736368656d61'),
	(32, '\x6e6f6465206f66206120736368656d61'),
	(33, '\x6e6f6465206f66206120736368656d61'),
	(34, '\x6e6f6465206f66206120736368656d61'),
	(35, '\x6e6f6465206f66206120736368656d61'),
	(36, '\x6e6f6465206f66206120736368656d61'),
	(37, '\x6e6f6465206f66206120736368656d61'),
	(38, '\x6e6f6465206f66206120736368656d61'),
	(39, '\x6e6f6465206f66206120736368656d61'),
	(40, '\x6e6f6465206f66206120736368656d61'),
	(41, '\x6e6f6465206f66206120736368656d61'),
	(42, '\x6e6f6465206f66206120736368656d61'),
	(43, '\x6e6f6465206f66206120736368656d61'),
	(44, '\x6e6f6465206f66206120736368656d61'),
	(45, '\x6e6f6465206f66206120736368656d61'),
	(46, '\x6e6f6465206f66206120736368656d61'),
	(47, '\x6e6f6465206f66206120736368656d61'),
	(48, '\x6e6f6465206f66206120736368656d61'),
	(49, '\x6e6f6465206f66206120736368656d61'),
	(50, '\x6e6f6465206f66206120736368656d61'),
	(51, '\x6e6f6465206f66206120736368656d61'),
	(52, '\x6e6f6465206f66206120736368656d61'),
	(53, '\x6e6f6465206f66206120736368656d61'),
	(54, '\x6e6f6465206f66206120736368656d61'),
	(55, '\x6e6f6465206f66206120736368656d61'),
	(56, '\x6e6f6465206f66206120736368656d61'),
	(57, '\x6e6f6465206f66206120736368656d61'),
	(58, '\x6e6f6465206f66206120736368656d61'),
	(59, '\x6e6f6465206f66206120736368656d61'),
	(60, '\x6e6f6465206f66206120736368656d61'),
	(61, '\x6e6f6465206f66206120736368656d61'),
	(62, '\x6e6f6465206f66206120736368656d61'),
	(63, '\x6e6f6465206f66206120736368656d61');
INSERT INTO mainspring.queue VALUES
	('default', 'narrow', false),
	('default', 'closed', true);
INSERT INTO mainspring.ready VALUES
	(49, 1, 3946226539133356822, 1899985600000001, '01ba60d3-3800-7c50-bb04-da6905b7a8ac', 0),
	(3, 1, 2147786583275984534, 1899985600000000, '01ba60d3-3800-70e1-a4e2-608e692e924c', 0),
	(24, 1, 2147786583275984534, 1899985600000001, '01ba60d3-3800-7636-b822-301113f66065', 0),
	(46, 1, 2147786583275984534, 1899985600000002, '01ba60d3-3800-7b8c-ba44-56261517ed59', 0),
	(12, 1, 2147786583275984534, 1899985600000000, '01ba60d3-3800-7330-9dab-ea18e57b9765', 0),
	(2, 1, 2147786583275984534, 1899985600000000, '01ba60d3-3800-7098-93d9-78fc859deecb', 0),
	(55, 1, 2147786583275984534, 1899985600000000, '01ba60d3-3800-7de6-841c-76ab53dc6ce8', 0),
	(54, 1, -830074270034629689, 1899985600000000, '01ba60d3-3800-7d92-98af-f6e89d4156e7', 0);
INSERT INTO mainspring.result VALUES
	('01ba60d3-3800-7cae-a6df-a14b10c412d9', '\x226b65707422');
INSERT INTO mainspring.schedule VALUES
	('default/s', 'default', 's', '\x7b7d', 'user', false, 1900000120000000, 2, 1900000180000000, 2);
INSERT INTO mainspring.session VALUES
	('\x697473206f6e6c792073657373696f6e', '\x6e6f6465206f66206120736368656d61', 'worker', NULL, 1900000000000000, NULL, NULL, false);
INSERT INTO mainspring.spec VALUES
	('01ba60d3-3800-7cae-a6df-a14b10c412d9', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-71c4-9efa-e4c470fc3cd6', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-75ac-a6f0-b45fdad78c0a', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-7bea-be63-e921dec99d6a', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-7ec3-970b-3535ee99a986', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-7450-aeff-9252fcbaaaff', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-7c50-bb04-da6905b7a8ac', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-70e1-a4e2-608e692e924c', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d2c2274616773223a5b2278225d7d'),
	('01ba60d3-3800-7636-b822-301113f66065', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d2c2274616773223a5b2278225d7d'),
	('01ba60d3-3800-7b8c-ba44-56261517ed59', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d2c2274616773223a5b2278225d7d'),
	('01ba60d3-3800-74be-8464-b1299b408b86', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c2273746172745f6279223a313930303030333630303030303030302c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-7cbe-8fd2-01fe44e3662d', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c2273746172745f6279223a313930303030333630303030303030302c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-7330-9dab-ea18e57b9765', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d2c226b6579223a226f726465722037227d'),
	('01ba60d3-3800-7098-93d9-78fc859deecb', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-782a-9aca-b6cc88ed9b4a', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-7de6-841c-76ab53dc6ce8', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-7de6-ab55-c77cb5ecac68', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d7d'),
	('01ba60d3-3800-7d92-98af-f6e89d4156e7', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d2c227363686564756c65223a2264656661756c742f73222c226f6363757272656e63655f6174223a313930303030303036303030303030307d'),
	('01ba60d3-3800-7d92-ae8e-f354cb2225f0', '\x7b7d', '\x7b226261636b6f6666223a7b22626173655f73223a322e302c226361705f73223a333630302e307d2c227265736f7572636573223a7b22637075223a302e302c226d656d6f72795f6d62223a302c22677075223a307d2c226c6162656c73223a5b5d2c227363686564756c65223a2264656661756c742f73222c226f6363757272656e63655f6174223a313930303030303132303030303030307d');
INSERT INTO mainspring.timer VALUES
	(22, 1900000030000000, '01ba60d3-3800-75ac-a6f0-b45fdad78c0a', 1, 2147786583275984534, 1899985630000000, 1),
	(18, 1900000060000000, '01ba60d3-3800-74be-8464-b1299b408b86', 1, 2147786583275984534, 1899985660000000, 0),
	(50, 1900000060000000, '01ba60d3-3800-7cbe-8fd2-01fe44e3662d', 1, 2147786583275984534, 1899985660000001, 0);
ALTER TABLE ONLY mainspring.access_key
    ADD CONSTRAINT access_key_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.active
    ADD CONSTRAINT active_pkey PRIMARY KEY (job);
ALTER TABLE ONLY mainspring.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (tenant, number);
ALTER TABLE ONLY mainspring.cancel
    ADD CONSTRAINT cancel_pkey PRIMARY KEY (job);
ALTER TABLE ONLY mainspring.claim
    ADD CONSTRAINT claim_pkey PRIMARY KEY (tenant, key);
ALTER TABLE ONLY mainspring.edge
    ADD CONSTRAINT edge_pkey PRIMARY KEY (parent, child);
ALTER TABLE ONLY mainspring.expiry
    ADD CONSTRAINT expiry_pkey PRIMARY KEY (partition, start_by, job);
ALTER TABLE ONLY mainspring.failure
    ADD CONSTRAINT failure_pkey PRIMARY KEY (job, attempt);
ALTER TABLE ONLY mainspring.finished
    ADD CONSTRAINT finished_pkey PRIMARY KEY (tenant, state, finished_at, job);
ALTER TABLE ONLY mainspring.held
    ADD CONSTRAINT held_pkey PRIMARY KEY (job, name);
ALTER TABLE ONLY mainspring.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (name);
ALTER TABLE ONLY mainspring.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (number);
ALTER TABLE ONLY mainspring.limit_rule
    ADD CONSTRAINT limit_rule_pkey PRIMARY KEY (name);
ALTER TABLE ONLY mainspring.limit_state
    ADD CONSTRAINT limit_state_pkey PRIMARY KEY (name, key);
ALTER TABLE ONLY mainspring.live
    ADD CONSTRAINT live_pkey PRIMARY KEY (session, job);
ALTER TABLE ONLY mainspring.mark
    ADD CONSTRAINT mark_pkey PRIMARY KEY (at, id);
ALTER TABLE ONLY mainspring.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);
ALTER TABLE ONLY mainspring.missed
    ADD CONSTRAINT missed_pkey PRIMARY KEY (schedule, last_at, reason);
ALTER TABLE ONLY mainspring.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.occurrence
    ADD CONSTRAINT occurrence_pkey PRIMARY KEY (schedule, occurrence_at);
ALTER TABLE ONLY mainspring.partition
    ADD CONSTRAINT partition_pkey PRIMARY KEY (number);
ALTER TABLE ONLY mainspring.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (job);
ALTER TABLE ONLY mainspring.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (tenant, name);
ALTER TABLE ONLY mainspring.ready
    ADD CONSTRAINT ready_pkey PRIMARY KEY (partition, band, lane, rank, job);
ALTER TABLE ONLY mainspring.result
    ADD CONSTRAINT result_pkey PRIMARY KEY (job);
ALTER TABLE ONLY mainspring.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.session
    ADD CONSTRAINT session_pkey PRIMARY KEY (id);
ALTER TABLE ONLY mainspring.setting
    ADD CONSTRAINT setting_pkey PRIMARY KEY (name);
ALTER TABLE ONLY mainspring.spec
    ADD CONSTRAINT spec_pkey PRIMARY KEY (job);
ALTER TABLE ONLY mainspring.template
    ADD CONSTRAINT template_pkey PRIMARY KEY (tenant, name);
ALTER TABLE ONLY mainspring.template_version
    ADD CONSTRAINT template_version_pkey PRIMARY KEY (tenant, name, version);
ALTER TABLE ONLY mainspring.tenant
    ADD CONSTRAINT tenant_pkey PRIMARY KEY (name);
ALTER TABLE ONLY mainspring.timer
    ADD CONSTRAINT timer_pkey PRIMARY KEY (partition, due_at, job);
CREATE INDEX active_schedule ON mainspring.active USING btree (schedule);
CREATE INDEX cancel_session ON mainspring.cancel USING btree (session);
CREATE INDEX claim_job ON mainspring.claim USING btree (job);
CREATE INDEX edge_child ON mainspring.edge USING btree (child);
CREATE INDEX held_name ON mainspring.held USING btree (name, key);
CREATE INDEX occurrence_job ON mainspring.occurrence USING btree (job);
CREATE INDEX schedule_next ON mainspring.schedule USING btree (next_at) WHERE ((NOT paused) AND (next_at IS NOT NULL));
