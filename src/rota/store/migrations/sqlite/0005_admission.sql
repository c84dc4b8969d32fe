-- Who may run: gates, limits, queues.
ALTER TABLE jobs ADD COLUMN requirements  TEXT;                         -- labels and keys; NULL: none
ALTER TABLE jobs ADD COLUMN special INTEGER NOT NULL DEFAULT 0;   -- it needs keys
ALTER TABLE jobs ADD COLUMN held_by TEXT;   -- what holds it: g:gate or k:owner:key; or, when ready, the key that let it go; else NULL

CREATE INDEX jobs_held    ON jobs (held_by, state, rank) WHERE held_by IS NOT NULL;
CREATE INDEX jobs_blocked ON jobs (queue)                WHERE state = 'blocked';   -- to be counted without those that have ended

CREATE TABLE gates (
    id         TEXT    NOT NULL PRIMARY KEY,
    owner      TEXT,                            -- whose jobs; NULL: everyone's
    task       TEXT,                            -- a glob
    queue      TEXT,
    by_user    TEXT,
    label      TEXT,
    effect     TEXT    NOT NULL CHECK (effect = 'pause' OR effect = 'drop'),
    reason     TEXT    NOT NULL,
    author     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    until      INTEGER,
    opened_at  INTEGER,                         -- it goes when what it held has gone on
    swept      INTEGER NOT NULL DEFAULT 0,      -- jobs up to this seq were looked at
    dropped    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- What a person has set for a key.
CREATE TABLE limits (
    owner       TEXT NOT NULL,
    key         TEXT NOT NULL,
    concurrency INTEGER CHECK (concurrency > 0),
    starts      INTEGER CHECK (starts > 0),
    span        INTEGER CHECK (span > 0),
    PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

-- Who holds a key: numbered, so that no two can hold the same. They go with the attempt, whatever ends it.
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

-- Tokens of rates that are used up until some instant.
CREATE TABLE starts (
    owner TEXT    NOT NULL,
    key   TEXT    NOT NULL,
    until INTEGER NOT NULL,
    job   TEXT    NOT NULL,
    fence INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (owner, key, until, job, fence)
) STRICT, WITHOUT ROWID;
CREATE INDEX starts_until ON starts (until);

-- Keys to be looked at: a slot became free, or someone has joined the line. Like `settling` for parents.
CREATE TABLE freed (held_by TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;

CREATE TABLE queues (
    name      TEXT    NOT NULL PRIMARY KEY,
    paused_at INTEGER,
    paused_by TEXT,
    note      TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

-- Ageing steps and feedback levels.
ALTER TABLE jobs ADD COLUMN level    INTEGER NOT NULL DEFAULT 0;   -- of feedback, by which its rank was put back
ALTER TABLE jobs ADD COLUMN own_step INTEGER;                      -- of ageing, by which it was ranked; NULL: as everywhere
CREATE INDEX jobs_moved ON jobs (queue, own_step, level)
    WHERE (level > 0 OR own_step IS NOT NULL) AND finished_at IS NULL AND node IS NULL;
ALTER TABLE queues ADD COLUMN feedback   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN quantum    INTEGER NOT NULL DEFAULT 10000000;
ALTER TABLE queues ADD COLUMN levels     INTEGER NOT NULL DEFAULT 5;
ALTER TABLE queues ADD COLUMN boost      INTEGER NOT NULL DEFAULT 60000000;
ALTER TABLE queues ADD COLUMN boosted_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queues ADD COLUMN step       INTEGER;                  -- of ageing; NULL: as everywhere
ALTER TABLE queues ADD COLUMN stepped_at INTEGER NOT NULL DEFAULT 0;

-- Flows that have used slots since the last boost of their queue.
CREATE TABLE flows (
    queue TEXT    NOT NULL,
    flow  TEXT    NOT NULL,
    used  INTEGER NOT NULL,
    level INTEGER NOT NULL,
    PRIMARY KEY (queue, flow)
) STRICT, WITHOUT ROWID;

-- Jobs that run alone close a gate for themselves. It opens when their attempt, or they, have ended.
ALTER TABLE gates ADD COLUMN job TEXT;
CREATE INDEX gates_job ON gates (job) WHERE job IS NOT NULL;

-- One for all that becomes of them: every trigger costs a claim a tenth, whether or not it concerns a job.
CREATE TRIGGER special_job_moved AFTER UPDATE OF state ON jobs WHEN old.special
BEGIN
    INSERT OR IGNORE INTO freed SELECT 'k:' || owner || ':' || key FROM slots
    WHERE job = old.id AND old.state = 'running' AND new.state <> 'running';
    DELETE FROM slots WHERE job = old.id AND old.state = 'running' AND new.state <> 'running';
    -- It was let go by a key, and did not take it: someone else may.
    INSERT OR IGNORE INTO freed SELECT old.held_by
    WHERE old.held_by IS NOT NULL AND old.state = 'ready' AND new.state <> 'ready' AND new.state <> 'running';
    UPDATE gates SET opened_at = 1 WHERE job = old.id AND opened_at IS NULL
      AND (old.state = 'running' AND new.state <> 'running' OR new.finished_at IS NOT NULL);
END;
