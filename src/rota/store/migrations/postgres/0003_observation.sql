-- works with: 1
-- Ended jobs, counted by bucket of time, owner, queue and task (store/statistics.py). They outlive the jobs.
CREATE TABLE rota.tallies (
    grain bigint NOT NULL,                        -- the length of the bucket,
    at    bigint NOT NULL,                        -- and its beginning
    owner text   NOT NULL,
    queue text   NOT NULL,
    task  text   NOT NULL,
    body  text   NOT NULL,                        -- a JobTally, as JSON
    PRIMARY KEY (grain, at, owner, queue, task)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Jobs that ended up to then are in the tallies.
CREATE TABLE rota.tallied (
    part  text   NOT NULL PRIMARY KEY,
    until bigint NOT NULL
) WITH (fillfactor = 50);

-- The jobs that have ended, and those that have not: names that SQLite has too.
CREATE VIEW rota.ended AS
SELECT owner, queue, task, state, replays, created_at, run_at, started_at, finished_at FROM rota.history;
CREATE VIEW rota.living AS
SELECT owner, queue, task, state, replays, created_at, run_at, started_at FROM rota.jobs;
