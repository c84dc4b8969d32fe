-- Jobs, all that live and all that retention has not yet taken. Narrow: what a claim must touch and no more.
-- States are compared one by one: for each statement, SQLite would build a table of its own out of every IN list in a
-- CHECK or an index of the row it writes, and that takes longer than the write (docs/measurements.md).
-- The rowid (seq) is the order of acceptance: it breaks ties of rank, and the other tables point to it.
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
    reason        TEXT                          -- why it is where it is
) STRICT;

-- The index that claims read holds nothing that can't run now. Kind comes before rank: a node that offers no functions
-- must not wade through them to find its commands.
CREATE INDEX jobs_ready    ON jobs (queue, kind, rank) WHERE state = 'ready';
CREATE INDEX jobs_due      ON jobs (run_at)            WHERE state = 'scheduled';
CREATE INDEX jobs_expiring ON jobs (expires_at)        WHERE expires_at IS NOT NULL
                                                         AND state IN ('blocked', 'scheduled', 'held', 'ready');
CREATE INDEX jobs_running  ON jobs (node)              WHERE state = 'running';
CREATE INDEX jobs_dead     ON jobs (finished_at)       WHERE state = 'failed';
CREATE INDEX jobs_ended    ON jobs (finished_at)       WHERE state = 'succeeded' OR state = 'cancelled'
                                                         OR state = 'skipped' OR state = 'dropped';

-- What was ordered: written once, read by the one who runs it.
CREATE TABLE payloads (
    seq     INTEGER PRIMARY KEY,
    spec    TEXT NOT NULL,
    digest  TEXT NOT NULL,
    args    TEXT NOT NULL,
    retry   TEXT NOT NULL,
    timeout INTEGER,
    key     TEXT
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

-- Functions that apps have offered, with their options: so that orders can be checked where the code is not at hand.
CREATE TABLE tasks (
    name    TEXT    NOT NULL PRIMARY KEY,
    info    TEXT    NOT NULL,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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
