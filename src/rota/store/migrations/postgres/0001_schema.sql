-- The schema is named `rota` here; the chosen name replaces it. Functions are in sql/postgres/functions. Instants are
-- microseconds since 1970, UTC, as everywhere in rota.

-- A token of the server's current run. The table is unlogged, so crash recovery empties it and replicas never have it:
-- the first connection afterwards inserts a new token. (After the crash of one backend the server restarts without a
-- change of its start time.)
CREATE UNLOGGED TABLE rota.boot (single boolean NOT NULL PRIMARY KEY CHECK (single), token uuid NOT NULL);

-- Jobs that have not ended. Order and payload are one row: a job is written three times (ordered, claimed, ended), and
-- the server keeps large payloads out of line by itself (docs/measurements.md).
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
    reason        text,                           -- of its state
    spec          text     NOT NULL,
    digest        text     NOT NULL,
    args          text     NOT NULL,
    retry         text     NOT NULL,
    timeout       bigint,
    key           text,
    requirements  text,                           -- labels, keys, alone and flow, as JSON; NULL: none
    meta          text                            -- added by submit hooks, as JSON; NULL: none
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.5);

-- Jobs that have ended, each with its last attempt: a plain success is one row here and nothing else.
-- `lasting` rows (the dead letters) are never dropped with a partition; the others are in a partition per day, made ahead
-- and dropped whole.
CREATE TABLE rota.history (
    LIKE rota.jobs INCLUDING DEFAULTS,
    finished_at bigint  NOT NULL,
    outcome     text,                             -- of its last attempt; NULL: it ended without one
    exit_code   integer,
    error       text,
    result      text,
    usage       text,
    lasting     boolean NOT NULL,
    skip_cause  text,                             -- why it was skipped for its parents
    CHECK (skip_cause IN ('trouble', 'stopped', 'unneeded')),
    CHECK (state IN ('succeeded', 'failed', 'cancelled', 'skipped', 'dropped')),
    CHECK (lasting = (state = 'failed')),
    CHECK (outcome IN ('succeeded', 'failed', 'timed_out', 'snoozed', 'cancelled', 'interrupted', 'crashed', 'set_aside'))
) PARTITION BY LIST (lasting);
CREATE TABLE rota.history_lasting PARTITION OF rota.history FOR VALUES IN (true);
CREATE TABLE rota.history_dated   PARTITION OF rota.history FOR VALUES IN (false) PARTITION BY RANGE (finished_at);
CREATE TABLE rota.history_other   PARTITION OF rota.history_dated DEFAULT;
CREATE INDEX history_id       ON rota.history (id);
CREATE INDEX history_finished ON rota.history (finished_at);

-- Columns of living jobs only.
ALTER TABLE rota.jobs
    ADD COLUMN tied     boolean  NOT NULL DEFAULT false,   -- other jobs wait for its end
    ADD COLUMN parents  integer  NOT NULL DEFAULT 0,       -- the number of jobs it was ordered after,
    ADD COLUMN waits    integer  NOT NULL DEFAULT 0,       -- and the number of these that have not ended as needed
    ADD COLUMN special  boolean  NOT NULL DEFAULT false,   -- it needs keys
    ADD COLUMN level    smallint NOT NULL DEFAULT 0,       -- the feedback level in its rank
    ADD COLUMN own_step bigint,                            -- the ageing step in its rank; NULL: the global one
    -- The gate (g:gate), key (k:owner:key) or wish to be alone (a:job) that holds it; on a ready job, the key that let it
    -- go. Ranges of it are read, hence the collation.
    ADD COLUMN held_by  text COLLATE "C";

-- The index that claims read holds ready jobs only. Kind comes before rank: a node without functions must not read
-- through functions to find its commands.
CREATE INDEX jobs_ready    ON rota.jobs (queue, kind, rank, id) WHERE state = 'ready';
-- Ready functions by task: a node reads the tasks that it offers, so functions of other apps are never in its way.
CREATE INDEX jobs_ready_by_task ON rota.jobs (queue, task, rank, id) WHERE state = 'ready' AND kind = 'function';
CREATE INDEX jobs_due      ON rota.jobs (run_at)                WHERE state = 'scheduled';
CREATE INDEX jobs_expiring ON rota.jobs (expires_at)            WHERE expires_at IS NOT NULL;
-- Not "WHERE state = 'running'": the planner must never choose this index to find a job by its id.
CREATE INDEX jobs_running  ON rota.jobs (node, claimed_at)      WHERE node IS NOT NULL;
CREATE INDEX jobs_held     ON rota.jobs (held_by, rank, id)     WHERE held_by IS NOT NULL;
CREATE INDEX jobs_let_go   ON rota.jobs (held_by)               WHERE state = 'ready' AND held_by IS NOT NULL;
-- By flow, as rota.flow_of says it.
CREATE INDEX jobs_put_back ON rota.jobs (queue, owner, coalesce(requirements::jsonb ->> 'flow', task), level) WHERE level > 0;
CREATE INDEX jobs_own_step ON rota.jobs (queue, own_step)       WHERE own_step IS NOT NULL;

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
    usage       text,
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
    at      bigint  NOT NULL,                     -- when it was written, by the clock of its node
    kept_at bigint  NOT NULL,
    stream  text    NOT NULL,
    body    bytea   NOT NULL,
    lasting boolean NOT NULL DEFAULT false
) PARTITION BY LIST (lasting);
CREATE TABLE rota.output_lasting PARTITION OF rota.output FOR VALUES IN (true);
CREATE TABLE rota.output_dated   PARTITION OF rota.output FOR VALUES IN (false) PARTITION BY RANGE (kept_at);
CREATE TABLE rota.output_other   PARTITION OF rota.output_dated DEFAULT;
CREATE INDEX output_job ON rota.output (job, fence, number);

-- The progress of running attempts. Apart from the jobs, whose rows are wide and have many indexes: these rows are
-- narrow and their updates stay in their page. Apart from the checkpoints too: progress is written five times a second,
-- a checkpoint may be long. `number` counts the reports of one attempt, so that a late repeat of an older one changes
-- nothing.
CREATE TABLE rota.progress (
    job      uuid   NOT NULL PRIMARY KEY,
    fence    bigint NOT NULL,
    number   bigint NOT NULL,
    fraction double precision CHECK (fraction BETWEEN 0 AND 1),   -- NULL: unknown
    text     text   NOT NULL CHECK (length(text) <= 200),
    at       bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- States that attempts have saved for later attempts of the same job.
CREATE TABLE rota.checkpoints (
    job    uuid   NOT NULL PRIMARY KEY,
    fence  bigint NOT NULL,
    number bigint NOT NULL,
    state  text   NOT NULL                        -- JSON
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

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
    server      text                              -- on this server; NULL: it holds none, only its silence counts
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX nodes_living ON rota.nodes (id) WHERE state IN ('live', 'stopping');

-- Functions that apps have made known, with their options: orders are checked against them where the code is not at hand.
CREATE TABLE rota.tasks (
    name    text    NOT NULL PRIMARY KEY,
    info    text    NOT NULL,
    seen_at bigint  NOT NULL,
    offered boolean NOT NULL DEFAULT true         -- a node has offered it; a client only makes it known
);

-- The node that does the housekeeping first. One row; the term rises whenever the leader changes.
CREATE TABLE rota.leader (
    single      boolean NOT NULL PRIMARY KEY CHECK (single),
    term        bigint  NOT NULL,
    incarnation text    NOT NULL,
    since       bigint  NOT NULL
) WITH (fillfactor = 50);
INSERT INTO rota.leader VALUES (true, 0, '', 0);

-- Events get their position (seq) from their first reader, under a lock: transactions commit in another order than they
-- begin, and no event may appear before a position that a reader has passed.
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

-- Rules that make jobs. `revision` rises with every change by a person. `handled` is the cursor: all fires up to it were
-- made or skipped. A scheduler moves a schedule on only if it still is as the scheduler has read it.
CREATE TABLE rota.schedules (
    owner         text   NOT NULL,
    name          text   NOT NULL,
    revision      bigint NOT NULL,
    timing        text   NOT NULL,
    work          text   NOT NULL,
    overlap       text   NOT NULL CHECK (overlap IN ('allow', 'skip', 'queue', 'replace')),
    calendars     text[] NOT NULL,                -- the names of the calendars it needs
    app           text,                           -- the app that declares it,
    module        text,                           -- and the module of that app; NULL: none does
    undeclared_at bigint,                         -- since when the app's newest node has not declared it, though it may not be gone
    created_at    bigint NOT NULL,
    changed_at    bigint NOT NULL,
    handled       bigint NOT NULL,
    next_at       bigint,                         -- NULL: it has ended, or was set aside
    fired         bigint NOT NULL DEFAULT 0,
    last_fire     bigint,
    last_job      uuid,
    paused_at     bigint,
    paused_by     text,
    note          text,
    broken        text,
    PRIMARY KEY (owner, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX schedules_next ON rota.schedules (next_at) WHERE next_at IS NOT NULL;

-- Fires that were made. They outlive the schedule, so that one of the same name does not make them again; not in
-- partitions, since the key must be unique over all time.
CREATE TABLE rota.fires (
    owner   text    NOT NULL,
    name    text    NOT NULL,
    fire    bigint  NOT NULL,
    job_id  uuid    NOT NULL,
    kind    text    NOT NULL CHECK (kind IN ('rule', 'manual', 'backfill')),
    at      bigint  NOT NULL,
    open    boolean NOT NULL,                     -- its job may live, and matters to other fires of the schedule
    waiting boolean NOT NULL CHECK (waiting <= open),   -- blocked until the fires before it have ended
    PRIMARY KEY (owner, name, fire)
);
CREATE INDEX fires_job     ON rota.fires (job_id);
CREATE INDEX fires_at      ON rota.fires (at);
CREATE INDEX fires_open    ON rota.fires (owner, name, fire) WHERE open;
CREATE INDEX fires_waiting ON rota.fires (owner, name, fire) WHERE waiting;

-- Fires that were not made, in runs of neighbours.
CREATE TABLE rota.skips (
    owner  text   NOT NULL,
    name   text   NOT NULL,
    first  bigint NOT NULL,
    last   bigint NOT NULL,
    count  bigint,                                -- NULL: too many to be counted
    reason text   NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (owner, name, first)
);
CREATE INDEX skips_at ON rota.skips (at);

CREATE TABLE rota.calendars (
    owner text NOT NULL,
    name  text NOT NULL,
    body  text NOT NULL,
    PRIMARY KEY (owner, name)
);

-- Dependencies between jobs. Not partitioned: a parent may have ended long before its child.
CREATE TABLE rota.edges (
    child  uuid   NOT NULL,
    parent uuid   NOT NULL,
    need   text   NOT NULL CHECK (need IN ('success', 'finish', 'failure', 'fine', 'trouble')),
    state  text   NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'met', 'broken', 'clear')),
    fills  text,                                  -- arguments of the child that are the parent's result: a list of paths, as JSON
    at     bigint NOT NULL,
    PRIMARY KEY (child, parent)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX edges_open   ON rota.edges (parent, child) WHERE state = 'open';
CREATE INDEX edges_parent ON rota.edges (parent);
CREATE INDEX edges_at     ON rota.edges (at);
-- Children that wait for trouble. They are few, so that others are told apart from them at once.
CREATE INDEX edges_trouble ON rota.edges (child) WHERE need = 'trouble';

-- Jobs whose children are to be looked at: the job has ended, or a child has just begun to wait for it. A trigger adds
-- every tied job that ends. The transaction that ends the job settles it if possible, the resolver otherwise. A job may
-- be here several times: with a unique row, a writer would have to wait for every other transaction that has added it
-- and not committed yet (a caller's own transaction may last), or rely on a row that is deleted before its own edge is
-- visible.
CREATE TABLE rota.settling (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job uuid NOT NULL)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Workflows: jobs that were ordered together.
CREATE TABLE rota.workflows (
    id         uuid   NOT NULL PRIMARY KEY,
    owner      text   NOT NULL,
    name       text   NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX workflows_latest ON rota.workflows (created_at, id);

CREATE TABLE rota.members (
    workflow uuid   NOT NULL,
    job      uuid   NOT NULL PRIMARY KEY,
    place    bigint NOT NULL,                     -- in the order of the jobs
    name     text   NOT NULL DEFAULT ''           -- of the job, in its workflow
);
CREATE INDEX members_workflow ON rota.members (workflow, place);

CREATE TABLE rota.gates (
    id         uuid   NOT NULL PRIMARY KEY,
    owner      text,                              -- of the jobs it concerns; NULL: everyone
    task       text,                              -- a glob, and the same pattern for LIKE
    task_like  text,
    queue      text,
    by_user    text,
    label      text,
    effect     text   NOT NULL CHECK (effect IN ('pause', 'drop')),
    reason     text   NOT NULL,
    author     text   NOT NULL,
    created_at bigint NOT NULL,
    until      bigint,
    job        uuid,                              -- the job that runs alone and closed it for itself
    opened_at  bigint,                            -- the row goes once the jobs it held have gone on
    swept      uuid   NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',   -- jobs up to this id were looked at
    dropped    bigint NOT NULL DEFAULT 0,
    claims     text[]                             -- of a gate of a job that runs alone: see functions/alone.sql
);
CREATE INDEX gates_job ON rota.gates (job) WHERE job IS NOT NULL;

-- Limits of keys that a person has set.
CREATE TABLE rota.limits (
    owner       text    NOT NULL,
    key         text    NOT NULL,
    concurrency integer CHECK (concurrency > 0),
    starts      integer CHECK (starts > 0),
    span        bigint  CHECK (span > 0),
    PRIMARY KEY (owner, key)
);

-- Holders of keys. Slots are numbered, so no two jobs can hold the same one. They go with the attempt, however it ends.
CREATE TABLE rota.slots (
    owner  text    NOT NULL,
    key    text    NOT NULL,
    number integer NOT NULL,
    job    uuid    NOT NULL,
    fence  bigint  NOT NULL,
    since  bigint  NOT NULL,
    PRIMARY KEY (owner, key, number)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX slots_job ON rota.slots (job);

-- Starts that count against rates. A job that asks counts them by its own window, so a row keeps when the job was claimed
-- and how much later it may really have started. `until`: how long the row is kept; ten minutes at least, and as long as
-- the longest window that is known to ask.
CREATE TABLE rota.starts (
    owner text   NOT NULL,
    key   text   NOT NULL,
    job   uuid   NOT NULL,
    fence bigint NOT NULL,
    at    bigint NOT NULL,
    late  bigint NOT NULL,
    until bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX starts_at    ON rota.starts (owner, key, at);
CREATE INDEX starts_until ON rota.starts (until);

-- Lines to be checked for room: a slot became free, or a job has joined the line. Like `settling` for parents.
CREATE TABLE rota.freed (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, held_by text NOT NULL)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Jobs that wait for several keys, a row for each key. In each of its lines, jobs that rank more than nine ageing steps
-- behind it (`latest`) must leave it room. Without that, two busy keys that become free in turn would never be free for
-- it together.
CREATE TABLE rota.wanted (
    owner  text   NOT NULL,
    key    text   NOT NULL,
    job    uuid   NOT NULL,
    latest bigint NOT NULL,
    PRIMARY KEY (job, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX wanted_key ON rota.wanted (owner, key, latest);

CREATE TABLE rota.queues (
    name       text     NOT NULL PRIMARY KEY,
    paused_at  bigint,
    paused_by  text,
    note       text     NOT NULL DEFAULT '',
    feedback   boolean  NOT NULL DEFAULT false,
    quantum    bigint   NOT NULL DEFAULT 10000000,
    levels     smallint NOT NULL DEFAULT 5 CHECK (levels BETWEEN 1 AND 5),
    boost      bigint   NOT NULL DEFAULT 60000000,
    boosted_at bigint   NOT NULL DEFAULT 0,
    step       bigint,                            -- of ageing; NULL: the global one
    stepped_at bigint   NOT NULL DEFAULT 0
);

-- Flows that have used slots since the last boost of their queue. A level counts like a priority: a claim that meets jobs
-- of a flow puts them back by the flow's level, and the boost puts them forward again.
CREATE TABLE rota.flows (
    queue text     NOT NULL,
    flow  text     NOT NULL,
    used  bigint   NOT NULL,
    level smallint NOT NULL,
    PRIMARY KEY (queue, flow)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- after functions

-- Statement triggers where jobs end by the hundred: a fifth of the time that row triggers take.
CREATE TRIGGER tied_jobs_ended AFTER DELETE ON rota.jobs
    REFERENCING OLD TABLE AS old_jobs FOR EACH STATEMENT EXECUTE FUNCTION rota.have_ended();
CREATE TRIGGER special_jobs_ended AFTER DELETE ON rota.jobs
    REFERENCING OLD TABLE AS old_jobs FOR EACH STATEMENT EXECUTE FUNCTION rota.free_keys();
CREATE TRIGGER special_job_stopped AFTER UPDATE OF state ON rota.jobs
    FOR EACH ROW WHEN (OLD.special AND OLD.state = 'running' AND NEW.state <> 'running') EXECUTE FUNCTION rota.frees_keys();
CREATE TRIGGER requirements_written BEFORE INSERT OR UPDATE OF requirements ON rota.jobs
    FOR EACH ROW WHEN (NEW.requirements IS NOT NULL) EXECUTE FUNCTION rota.check_requirements();
