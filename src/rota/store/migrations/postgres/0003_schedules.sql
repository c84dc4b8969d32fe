-- works with: 2

-- Rules that make jobs. `revision` rises with every change by a person; `handled` is the cursor: all fires up to it were
-- made or skipped. Schedulers move on what stands as they have read it, and nothing else.
CREATE TABLE rota.schedules (
    owner      text   NOT NULL,
    name       text   NOT NULL,
    revision   bigint NOT NULL,
    timing     text   NOT NULL,
    work       text   NOT NULL,
    overlap    text   NOT NULL CHECK (overlap IN ('allow', 'skip', 'queue', 'replace')),
    calendars  text[] NOT NULL,                   -- the names of those it needs
    app        text,                              -- the app that declares it
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    handled    bigint NOT NULL,
    next_at    bigint,                            -- NULL: it has ended, or was set aside
    fired      bigint NOT NULL DEFAULT 0,
    last_fire  bigint,
    last_job   uuid,
    paused_at  bigint,
    paused_by  text,
    note       text,
    broken     text,
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
    open    boolean NOT NULL,                     -- its job may live, and others of the schedule care
    waiting boolean NOT NULL CHECK (waiting <= open),   -- blocked until those before it have ended
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
