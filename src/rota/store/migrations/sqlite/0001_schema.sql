-- Live jobs, and ended jobs until their retention is over. Narrow: only the columns that a claim must touch. States are
-- compared one by one: for each statement, SQLite would build a table of its own out of every IN list in a CHECK or an
-- index of the row it writes, and that takes longer than the write (docs/measurements.md). The rowid (seq) is the order
-- of acceptance: it breaks ties of rank, and the other tables point to it.
CREATE TABLE jobs (
    seq           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    owner         TEXT    NOT NULL,
    state         TEXT    NOT NULL CHECK (state = 'blocked' OR state = 'scheduled' OR state = 'held' OR state = 'ready'
                                       OR state = 'running' OR state = 'succeeded' OR state = 'failed'
                                       OR state = 'cancelled' OR state = 'skipped' OR state = 'dropped'),
    queue         TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    task          TEXT    NOT NULL,
    priority      INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
    rank          INTEGER NOT NULL,             -- lowest first; set whenever run_at is
    run_at        INTEGER NOT NULL,             -- instants are microseconds since 1970, UTC
    expires_at    INTEGER,
    created_at    INTEGER NOT NULL,
    started_at    INTEGER,                      -- of the latest attempt; NULL while claimed ahead
    finished_at   INTEGER CHECK ((finished_at IS NOT NULL) = (state = 'succeeded' OR state = 'failed' OR state = 'cancelled'
                                                                 OR state = 'skipped' OR state = 'dropped')),
    fence         INTEGER NOT NULL DEFAULT 0 CHECK (fence BETWEEN 0 AND 1 << 50),   -- rises at every claim, never resets
    tries         INTEGER NOT NULL DEFAULT 0 CHECK (tries BETWEEN 0 AND 1 << 50),   -- attempts started so far
    failures      INTEGER NOT NULL DEFAULT 0 CHECK (failures BETWEEN 0 AND 1 << 50),
    crashes       INTEGER NOT NULL DEFAULT 0 CHECK (crashes BETWEEN 0 AND 1 << 50),
    interruptions INTEGER NOT NULL DEFAULT 0 CHECK (interruptions BETWEEN 0 AND 1 << 50),
    replays       INTEGER NOT NULL DEFAULT 0 CHECK (replays BETWEEN 0 AND 1 << 50),
    node          TEXT CHECK ((node IS NOT NULL) = (state = 'running')),   -- the incarnation that holds it
    cancel        TEXT,                         -- running, and asked to stop, for this reason
    reason        TEXT,                         -- of its state
    tied          INTEGER NOT NULL DEFAULT 0,   -- other jobs wait for its end
    parents       INTEGER NOT NULL DEFAULT 0,   -- the number of jobs it was ordered after,
    waits         INTEGER NOT NULL DEFAULT 0,   -- and the number of these that have not ended as needed
    skip_cause    TEXT CHECK (skip_cause = 'trouble' OR skip_cause = 'stopped' OR skip_cause = 'unneeded'),   -- why it was skipped for its parents
    requirements  TEXT,                         -- labels, keys, alone and flow, as JSON; NULL: none
    special       INTEGER NOT NULL DEFAULT 0,   -- it needs keys
    held_by       TEXT,                         -- the gate (g:gate), key (k:owner:key) or wish to be alone (a:job) that holds it; on a ready job, the key that let it go
    level         INTEGER NOT NULL DEFAULT 0,   -- the feedback level in its rank
    own_step      INTEGER,                      -- the ageing step in its rank; NULL: the global one
    -- The flow that is charged for its slots, within those of its owner. Requirements may have been written by hand.
    flow          TEXT AS (iif(requirements IS NULL, task, coalesce(iif(json_valid(requirements), requirements ->> '$.flow', NULL), task))) VIRTUAL
) STRICT;

-- The index that claims read holds ready jobs only. Kind comes before rank: a node without functions must not read
-- through functions to find its commands.
CREATE INDEX jobs_ready    ON jobs (queue, kind, rank) WHERE state = 'ready';
-- Ready functions by task: a node reads the tasks that it offers, so functions of other apps are never in its way.
CREATE INDEX jobs_ready_by_task ON jobs (queue, task, rank) WHERE state = 'ready' AND kind = 'function';
CREATE INDEX jobs_due      ON jobs (run_at)            WHERE state = 'scheduled';
CREATE INDEX jobs_expiring ON jobs (expires_at)        WHERE expires_at IS NOT NULL
                                                         AND state IN ('blocked', 'scheduled', 'held', 'ready');
CREATE INDEX jobs_running  ON jobs (node)              WHERE state = 'running';
CREATE INDEX jobs_held     ON jobs (held_by, state, rank) WHERE held_by IS NOT NULL;
CREATE INDEX jobs_blocked  ON jobs (queue)             WHERE state = 'blocked';   -- counts blocked jobs without reading ended ones
CREATE INDEX jobs_moved    ON jobs (queue, own_step, level)
    WHERE (level > 0 OR own_step IS NOT NULL) AND finished_at IS NULL AND node IS NULL;
CREATE INDEX jobs_dead     ON jobs (finished_at)       WHERE state = 'failed';
CREATE INDEX jobs_ended    ON jobs (finished_at)       WHERE state = 'succeeded' OR state = 'cancelled'
                                                         OR state = 'skipped' OR state = 'dropped';

-- The parts of an order that are written once and read by the node that runs the job.
CREATE TABLE payloads (
    seq     INTEGER PRIMARY KEY,
    spec    TEXT NOT NULL,
    digest  TEXT NOT NULL,
    args    TEXT NOT NULL,
    retry   TEXT NOT NULL,
    timeout INTEGER,
    key     TEXT,
    meta    TEXT                                -- added by submit hooks, as JSON; NULL: none
) STRICT;

-- Attempts that ended. A running one is in its job's row only: one write per attempt instead of two.
CREATE TABLE attempts (
    job         INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    node        TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    outcome     TEXT    NOT NULL CHECK (outcome = 'succeeded' OR outcome = 'failed' OR outcome = 'timed_out'
                                        OR outcome = 'snoozed' OR outcome = 'cancelled' OR outcome = 'interrupted'
                                        OR outcome = 'crashed' OR outcome = 'set_aside'),
    exit_code   INTEGER,
    error       TEXT,
    result      TEXT,
    usage       TEXT,
    PRIMARY KEY (job, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE output (
    job    INTEGER NOT NULL,
    fence  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    stream TEXT    NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (job, fence, number)
) STRICT, WITHOUT ROWID;

-- The progress of running attempts. Apart from the jobs and from the checkpoints: progress is written five times a
-- second, and these rows are long. `number` counts the reports of one attempt, so that a late repeat of an older one
-- changes nothing.
CREATE TABLE progress (
    job      INTEGER PRIMARY KEY,
    fence    INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    fraction REAL CHECK (fraction BETWEEN 0 AND 1),   -- NULL: unknown
    text     TEXT    NOT NULL CHECK (length(text) <= 200),
    at       INTEGER NOT NULL
) STRICT;

-- States that attempts have saved for later attempts of the same job.
CREATE TABLE checkpoints (
    job    INTEGER PRIMARY KEY,
    fence  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    state  TEXT    NOT NULL                     -- JSON
) STRICT;

-- Idempotency keys outlive the jobs they made.
CREATE TABLE keys (
    owner      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    content    TEXT    NOT NULL,
    job_id     TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_expiring ON keys (expires_at);

CREATE TABLE nodes (
    incarnation TEXT    NOT NULL PRIMARY KEY,
    id          TEXT    NOT NULL,
    roles       TEXT    NOT NULL,
    queues      TEXT    NOT NULL,
    tasks       TEXT    NOT NULL,               -- the functions it can run
    version     TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('live', 'stopping', 'left', 'dead')),
    started_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    lease       INTEGER NOT NULL,
    beats       INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Functions that apps have made known, with their options: orders are checked against them where the code is not at hand.
CREATE TABLE tasks (
    name    TEXT    NOT NULL PRIMARY KEY,
    info    TEXT    NOT NULL,
    seen_at INTEGER NOT NULL,
    offered INTEGER NOT NULL DEFAULT 1          -- a node has offered it; a client only makes it known
) STRICT, WITHOUT ROWID;

-- The node that does the housekeeping first. One row; the term rises whenever the leader changes.
CREATE TABLE leader (
    only        INTEGER PRIMARY KEY CHECK (only = 1),
    term        INTEGER NOT NULL,
    incarnation TEXT    NOT NULL,
    since       INTEGER NOT NULL
) STRICT;
INSERT INTO leader VALUES (1, 0, '', 0);

-- One writer at a time: the order of seq is the order of commits.
CREATE TABLE outbox (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    owner   TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    data    TEXT    NOT NULL
) STRICT;
CREATE INDEX outbox_at ON outbox (at);

-- Rules that make jobs. `revision` rises with every change by a person. `handled` is the cursor: all fires up to it were
-- made or skipped. A scheduler moves a schedule on only if it still is as the scheduler has read it.
CREATE TABLE schedules (
    owner         TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    revision      INTEGER NOT NULL,
    timing        TEXT    NOT NULL,
    work          TEXT    NOT NULL,
    overlap       TEXT    NOT NULL CHECK (overlap = 'allow' OR overlap = 'skip' OR overlap = 'queue' OR overlap = 'replace'),
    calendars     TEXT    NOT NULL,             -- the names of the calendars it needs, as JSON
    app           TEXT,                         -- the app that declares it,
    module        TEXT,                         -- and the module of that app; NULL: none does
    undeclared_at INTEGER,                      -- since when the app's newest node has not declared it, though it may not be gone
    created_at    INTEGER NOT NULL,
    changed_at    INTEGER NOT NULL,
    handled       INTEGER NOT NULL,
    next_at       INTEGER,                      -- NULL: it has ended, or was set aside
    fired         INTEGER NOT NULL DEFAULT 0,
    last_fire     INTEGER,
    last_job      TEXT,
    paused_at     INTEGER,
    paused_by     TEXT,
    note          TEXT,
    broken        TEXT,
    PRIMARY KEY (owner, name)
) STRICT;
CREATE INDEX schedules_next ON schedules (next_at) WHERE next_at IS NOT NULL;

-- Fires that were made. They outlive the schedule, so that one of the same name does not make them again.
CREATE TABLE fires (
    owner   TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    fire    INTEGER NOT NULL,
    job_id  TEXT    NOT NULL,
    kind    TEXT    NOT NULL CHECK (kind = 'rule' OR kind = 'manual' OR kind = 'backfill'),
    at      INTEGER NOT NULL,
    open    INTEGER NOT NULL,                   -- its job may live, and matters to other fires of the schedule
    waiting INTEGER NOT NULL CHECK (waiting <= open),   -- blocked until the fires before it have ended
    PRIMARY KEY (owner, name, fire)
) STRICT, WITHOUT ROWID;
CREATE INDEX fires_job     ON fires (job_id);
CREATE INDEX fires_at      ON fires (at);
CREATE INDEX fires_going   ON fires (owner, name, fire) WHERE open AND NOT waiting;
CREATE INDEX fires_waiting ON fires (owner, name, fire) WHERE waiting;

-- Fires that were not made, in runs of neighbours.
CREATE TABLE skips (
    owner  TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    count  INTEGER,                             -- NULL: too many to be counted
    reason TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (owner, name, first)
) STRICT, WITHOUT ROWID;
CREATE INDEX skips_at ON skips (at);

CREATE TABLE calendars (
    owner TEXT NOT NULL,
    name  TEXT NOT NULL,
    body  TEXT NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;

-- Dependencies between jobs.
CREATE TABLE edges (
    child  TEXT NOT NULL,
    parent TEXT NOT NULL,
    need   TEXT NOT NULL CHECK (need = 'success' OR need = 'finish' OR need = 'failure' OR need = 'fine' OR need = 'trouble'),
    state  TEXT NOT NULL DEFAULT 'open' CHECK (state = 'open' OR state = 'met' OR state = 'broken' OR state = 'clear'),
    fills  TEXT,                                -- arguments of the child that are the parent's result: a list of paths, as JSON
    PRIMARY KEY (child, parent)
) STRICT, WITHOUT ROWID;
CREATE INDEX edges_open   ON edges (parent, child) WHERE state = 'open';
CREATE INDEX edges_parent ON edges (parent);
-- Children that wait for trouble. They are few, so that others are told apart from them at once.
CREATE INDEX edges_trouble ON edges (child) WHERE need = 'trouble';

-- Jobs whose children are to be looked at: the job has ended, or a child has just begun to wait for it. The trigger adds
-- every tied job that ends.
CREATE TABLE settling (job TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TRIGGER tied_job_ended AFTER UPDATE OF state ON jobs WHEN old.tied AND old.finished_at IS NULL AND new.finished_at IS NOT NULL
BEGIN
    INSERT OR IGNORE INTO settling VALUES (new.id);
END;

-- Workflows: jobs that were ordered together.
CREATE TABLE workflows (
    id         TEXT    NOT NULL PRIMARY KEY,
    owner      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX workflows_latest ON workflows (created_at, id);

CREATE TABLE members (
    workflow TEXT    NOT NULL,
    job      TEXT    NOT NULL PRIMARY KEY,
    place    INTEGER NOT NULL,                  -- in the order of the jobs
    name     TEXT    NOT NULL DEFAULT ''        -- of the job, in its workflow
) STRICT, WITHOUT ROWID;
CREATE INDEX members_workflow ON members (workflow, place);

CREATE TABLE gates (
    id         TEXT    NOT NULL PRIMARY KEY,
    owner      TEXT,                            -- of the jobs it concerns; NULL: everyone
    task       TEXT,                            -- a glob
    queue      TEXT,
    by_user    TEXT,
    label      TEXT,
    effect     TEXT    NOT NULL CHECK (effect = 'pause' OR effect = 'drop'),
    reason     TEXT    NOT NULL,
    author     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    until      INTEGER,
    job        TEXT,                            -- the job that runs alone and closed it for itself; it opens when the job's attempt ends
    opened_at  INTEGER,                         -- the row goes once the jobs it held have gone on
    swept      INTEGER NOT NULL DEFAULT 0,      -- jobs up to this seq were looked at
    dropped    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX gates_job ON gates (job) WHERE job IS NOT NULL;

-- Limits of keys that a person has set.
CREATE TABLE limits (
    owner       TEXT NOT NULL,
    key         TEXT NOT NULL,
    concurrency INTEGER CHECK (concurrency > 0),
    starts      INTEGER CHECK (starts > 0),
    span        INTEGER CHECK (span > 0),
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

-- Holders of keys. Slots are numbered, so no two jobs can hold the same one. They go with the attempt, however it ends.
CREATE TABLE slots (
    owner  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    number INTEGER NOT NULL,
    job    TEXT    NOT NULL,
    fence  INTEGER NOT NULL,
    since  INTEGER NOT NULL,
    PRIMARY KEY (owner, key, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX slots_job ON slots (job);

-- Starts that count against rates. A job that asks counts them by its own window, so a row keeps when the job was claimed
-- and how much later it may really have started. `until`: how long the row is kept; ten minutes at least, and as long as
-- the longest window that is known to ask.
CREATE TABLE starts (
    owner TEXT    NOT NULL,
    key   TEXT    NOT NULL,
    until INTEGER NOT NULL,
    job   TEXT    NOT NULL,
    fence INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    late  INTEGER NOT NULL,
    PRIMARY KEY (owner, key, until, job, fence)
) STRICT, WITHOUT ROWID;
CREATE INDEX starts_at    ON starts (owner, key, at);
CREATE INDEX starts_until ON starts (until);

-- Lines to be checked for room: a slot became free, or a job has joined the line. Like `settling` for parents.
CREATE TABLE freed (held_by TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Jobs that wait for several keys, a row for each key. In each of its lines, jobs that rank more than nine ageing steps
-- behind it (`latest`) must leave it room. Without that, two busy keys that become free in turn would never be free for
-- it together.
CREATE TABLE wanted (
    owner  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    job    TEXT    NOT NULL,
    latest INTEGER NOT NULL,
    PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX wanted_key ON wanted (owner, key, latest);

CREATE TABLE queues (
    name       TEXT    NOT NULL PRIMARY KEY,
    paused_at  INTEGER,
    paused_by  TEXT,
    note       TEXT    NOT NULL DEFAULT '',
    feedback   INTEGER NOT NULL DEFAULT 0,
    quantum    INTEGER NOT NULL DEFAULT 10000000,
    levels     INTEGER NOT NULL DEFAULT 5,
    boost      INTEGER NOT NULL DEFAULT 60000000,
    boosted_at INTEGER NOT NULL DEFAULT 0,
    step       INTEGER,                         -- of ageing; NULL: the global one
    stepped_at INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Flows that have used slots since the last boost of their queue.
CREATE TABLE flows (
    queue TEXT    NOT NULL,
    flow  TEXT    NOT NULL,
    used  INTEGER NOT NULL,
    level INTEGER NOT NULL,
    PRIMARY KEY (queue, flow)
) STRICT, WITHOUT ROWID;

-- One trigger for every move of a special job: each trigger costs a claim a tenth, also of jobs that it does not concern.
CREATE TRIGGER special_job_moved AFTER UPDATE OF state ON jobs WHEN old.special
BEGIN
    INSERT OR IGNORE INTO freed SELECT 'k:' || owner || ':' || key FROM slots
    WHERE job = old.id AND old.state = 'running' AND new.state <> 'running';
    DELETE FROM slots WHERE job = old.id AND old.state = 'running' AND new.state <> 'running';
    -- A key had let it go, and it did not take the key: another job may.
    INSERT OR IGNORE INTO freed SELECT old.held_by
    WHERE old.held_by IS NOT NULL AND old.state = 'ready' AND new.state <> 'ready' AND new.state <> 'running';
    -- A job that runs alone and is held by something else than its wish to be alone opens its gate: the others run meanwhile.
    UPDATE gates SET opened_at = 1 WHERE job = old.id AND opened_at IS NULL
      AND (old.state = 'running' AND new.state <> 'running' OR new.finished_at IS NOT NULL
           OR new.state = 'held' AND new.held_by NOT LIKE 'a:%');
    DELETE FROM wanted WHERE job = old.id AND (new.state = 'running' OR new.finished_at IS NOT NULL);
END;
