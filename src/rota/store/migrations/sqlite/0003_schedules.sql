-- Rules that make jobs. `revision` rises with every change by a person; `handled` is the cursor: all fires up to it were
-- made or skipped. Schedulers move on what stands as they have read it, and nothing else.
CREATE TABLE schedules (
    owner      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    revision   INTEGER NOT NULL,
    timing     TEXT    NOT NULL,
    work       TEXT    NOT NULL,
    overlap    TEXT    NOT NULL CHECK (overlap = 'allow' OR overlap = 'skip' OR overlap = 'queue' OR overlap = 'replace'),
    calendars  TEXT    NOT NULL,                -- the names of those it needs, as JSON
    app        TEXT,                            -- the app that declares it
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    handled    INTEGER NOT NULL,
    next_at    INTEGER,                         -- NULL: it has ended, or was set aside
    fired      INTEGER NOT NULL DEFAULT 0,
    last_fire  INTEGER,
    last_job   TEXT,
    paused_at  INTEGER,
    paused_by  TEXT,
    note       TEXT,
    broken     TEXT,
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
    open    INTEGER NOT NULL,                   -- its job may live, and others of the schedule care
    waiting INTEGER NOT NULL CHECK (waiting <= open),   -- blocked until those before it have ended
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
