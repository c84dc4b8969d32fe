-- The name of the schema is `rota` here; the one that was chosen is put in its place.
-- Instants are microseconds since 1970, UTC, as everywhere in rota.

-- The one clock. A given instant takes its place in tests and simulations.
CREATE FUNCTION rota.clock(given bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(given, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint) $$;

-- Emptied by every crash recovery and never replicated, because it is unlogged: whoever connects first puts a new token
-- into it. (When one backend crashes, the server starts anew without its start time telling so.)
CREATE UNLOGGED TABLE rota.boot (single boolean NOT NULL PRIMARY KEY CHECK (single), token uuid NOT NULL);

-- Which server this is, and since when it runs: advisory locks live and die with it.
CREATE FUNCTION rota.server() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    start bigint := (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN start;
    END IF;
    RETURN start || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
                 || '/' || coalesce((SELECT token::text FROM rota.boot), '');
END $$;

-- Jobs that live; those that ended move to `history`. Order and payload stand in one row: a job is written three times
-- (ordered, claimed, ended), and large payloads are kept out of line by themselves (docs/measurements.md).
CREATE TABLE rota.jobs (
    id            uuid     NOT NULL PRIMARY KEY,
    owner         text     NOT NULL,
    state         text     NOT NULL CHECK (state IN ('blocked', 'scheduled', 'held', 'ready', 'running')),
    queue         text     NOT NULL,
    kind          text     NOT NULL,
    task          text     NOT NULL,
    priority      smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
    rank          bigint   NOT NULL,              -- lowest first; set whenever run_at is
    run_at        bigint   NOT NULL,
    expires_at    bigint,
    created_at    bigint   NOT NULL,
    claimed_at    bigint,                         -- by the node that holds it
    started_at    bigint,                         -- of the latest attempt; NULL while claimed ahead
    fence         bigint   NOT NULL DEFAULT 0 CHECK (fence BETWEEN 0 AND 1::bigint << 50),    -- rises at every claim, never resets
    tries         bigint   NOT NULL DEFAULT 0 CHECK (tries BETWEEN 0 AND 1::bigint << 50),    -- attempts started so far
    failures      bigint   NOT NULL DEFAULT 0 CHECK (failures BETWEEN 0 AND 1::bigint << 50),
    crashes       bigint   NOT NULL DEFAULT 0 CHECK (crashes BETWEEN 0 AND 1::bigint << 50),
    interruptions bigint   NOT NULL DEFAULT 0 CHECK (interruptions BETWEEN 0 AND 1::bigint << 50),
    replays       bigint   NOT NULL DEFAULT 0 CHECK (replays BETWEEN 0 AND 1::bigint << 50),
    node          text     CHECK ((node IS NOT NULL) = (state = 'running')),   -- the incarnation that holds it
    cancel        text,                           -- running, and asked to stop, for this reason
    reason        text,                           -- why it is where it is
    spec          text     NOT NULL,
    digest        text     NOT NULL,
    args          text     NOT NULL,
    retry         text     NOT NULL,
    timeout       bigint,
    key           text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5);

-- The index that claims read holds nothing that can't run now. Kind comes before rank: a node that offers no functions
-- must not wade through them to find its commands.
CREATE INDEX jobs_ready    ON rota.jobs (queue, kind, rank, id) WHERE state = 'ready';
CREATE INDEX jobs_due      ON rota.jobs (run_at)                WHERE state = 'scheduled';
CREATE INDEX jobs_expiring ON rota.jobs (expires_at)            WHERE expires_at IS NOT NULL;
-- Not "WHERE state = 'running'": statements that look for a job by its id must never be tempted to use this one.
CREATE INDEX jobs_running  ON rota.jobs (node, claimed_at)      WHERE node IS NOT NULL;

-- Jobs that ended, each with its last attempt: a plain success is one row here and nothing else.
-- `lasting` rows (the dead letters) are never dropped with a partition; the others lie in a partition per day, made ahead
-- and dropped whole.
CREATE TABLE rota.history (
    LIKE rota.jobs INCLUDING DEFAULTS,
    finished_at bigint  NOT NULL,
    outcome     text,                             -- of its last attempt; NULL: it ended without one
    exit_code   integer,
    error       text,
    result      text,
    lasting     boolean NOT NULL,
    CHECK (state IN ('succeeded', 'failed', 'cancelled', 'skipped', 'dropped')),
    CHECK (lasting = (state = 'failed')),
    CHECK (outcome IN ('succeeded', 'failed', 'timed_out', 'snoozed', 'cancelled', 'interrupted', 'crashed', 'set_aside'))
) PARTITION BY LIST (lasting);
CREATE TABLE rota.history_lasting PARTITION OF rota.history FOR VALUES IN (true);
CREATE TABLE rota.history_dated   PARTITION OF rota.history FOR VALUES IN (false) PARTITION BY RANGE (finished_at);
CREATE TABLE rota.history_other   PARTITION OF rota.history_dated DEFAULT;
CREATE INDEX history_id       ON rota.history (id);
CREATE INDEX history_finished ON rota.history (finished_at);

-- Attempts that did not end their job.
CREATE TABLE rota.attempts (
    job         uuid    NOT NULL,
    fence       bigint  NOT NULL,
    number      bigint  NOT NULL,
    node        text    NOT NULL,
    started_at  bigint  NOT NULL,
    finished_at bigint  NOT NULL,
    outcome     text    NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'timed_out', 'snoozed', 'cancelled',
                                                    'interrupted', 'crashed', 'set_aside')),
    exit_code   integer,
    error       text,
    result      text,
    lasting     boolean NOT NULL DEFAULT false
) PARTITION BY LIST (lasting);
CREATE TABLE rota.attempts_lasting PARTITION OF rota.attempts FOR VALUES IN (true);
CREATE TABLE rota.attempts_dated   PARTITION OF rota.attempts FOR VALUES IN (false) PARTITION BY RANGE (finished_at);
CREATE TABLE rota.attempts_other   PARTITION OF rota.attempts_dated DEFAULT;
CREATE INDEX attempts_job ON rota.attempts (job, fence);

CREATE TABLE rota.output (
    job     uuid    NOT NULL,
    fence   bigint  NOT NULL,
    number  bigint  NOT NULL,
    at      bigint  NOT NULL,                     -- when it was said, by the clock of its node
    kept_at bigint  NOT NULL,
    stream  text    NOT NULL,
    body    bytea   NOT NULL,
    lasting boolean NOT NULL DEFAULT false
) PARTITION BY LIST (lasting);
CREATE TABLE rota.output_lasting PARTITION OF rota.output FOR VALUES IN (true);
CREATE TABLE rota.output_dated   PARTITION OF rota.output FOR VALUES IN (false) PARTITION BY RANGE (kept_at);
CREATE TABLE rota.output_other   PARTITION OF rota.output_dated DEFAULT;
CREATE INDEX output_job ON rota.output (job, fence, number);

-- Idempotency keys outlive the jobs they made, and partitions.
CREATE TABLE rota.keys (
    owner      text   NOT NULL,
    key        text   NOT NULL,
    content    text   NOT NULL,
    job_id     uuid   NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE INDEX keys_expiring ON rota.keys (expires_at);

CREATE TABLE rota.nodes (
    incarnation text    NOT NULL PRIMARY KEY,
    id          text    NOT NULL,
    roles       text    NOT NULL,
    queues      text    NOT NULL,
    tasks       text[]  NOT NULL,                 -- the functions it can run
    version     text    NOT NULL,
    state       text    NOT NULL CHECK (state IN ('live', 'stopping', 'left', 'dead')),
    started_at  bigint  NOT NULL,
    seen_at     bigint  NOT NULL,
    lease       bigint  NOT NULL,
    beats       bigint  NOT NULL DEFAULT 0,
    busy_since  bigint  NOT NULL DEFAULT 0,       -- it holds nothing that was claimed earlier
    lock        bigint  NOT NULL,                 -- the advisory lock that it holds while it lives,
    server      text                              -- on this server; NULL: it holds none, only silence tells
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX nodes_living ON rota.nodes (id) WHERE state IN ('live', 'stopping');

-- Functions that apps have offered, with their options: so that orders can be checked where the code is not at hand.
CREATE TABLE rota.tasks (
    name    text   NOT NULL PRIMARY KEY,
    info    text   NOT NULL,
    seen_at bigint NOT NULL
);

-- Who does the housekeeping first. One row; the term rises whenever the leader changes.
CREATE TABLE rota.leader (
    single      boolean NOT NULL PRIMARY KEY CHECK (single),
    term        bigint  NOT NULL,
    incarnation text    NOT NULL,
    since       bigint  NOT NULL
) WITH (fillfactor = 50);
INSERT INTO rota.leader VALUES (true, 0, '', 0);

-- Events get their position (seq) from whoever reads them first, under a lock: transactions end in another order than
-- they begin, and what a reader has passed must never get company later.
CREATE SEQUENCE rota.outbox_positions;
CREATE TABLE rota.outbox (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    seq     bigint UNIQUE,
    at      bigint NOT NULL,
    kind    text   NOT NULL,
    owner   text   NOT NULL,
    subject text   NOT NULL,
    data    text   NOT NULL
);
CREATE INDEX outbox_unread ON rota.outbox (id) WHERE seq IS NULL;
CREATE INDEX outbox_at     ON rota.outbox (at);
