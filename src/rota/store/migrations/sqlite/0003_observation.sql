-- Ended jobs, counted by bucket of time, owner, queue and task (store/statistics.py). They outlive the jobs.
CREATE TABLE tallies (
    grain INTEGER NOT NULL,                     -- the length of the bucket,
    at    INTEGER NOT NULL,                     -- and its beginning
    owner TEXT    NOT NULL,
    queue TEXT    NOT NULL,
    task  TEXT    NOT NULL,
    body  TEXT    NOT NULL,                     -- a JobTally, as JSON
    PRIMARY KEY (grain, at, owner, queue, task)
) STRICT, WITHOUT ROWID;

-- Jobs that ended up to then are in the tallies.
CREATE TABLE tallied (
    part  TEXT    NOT NULL PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The jobs that have ended, and those that have not. Each arm reads an index of its own; otherwise a look at the living
-- jobs would read through all ended ones.
CREATE VIEW ended AS
SELECT owner, queue, task, state, replays, created_at, run_at, started_at, finished_at FROM jobs INDEXED BY jobs_ended
WHERE state = 'succeeded' OR state = 'cancelled' OR state = 'skipped' OR state = 'dropped'
UNION ALL
SELECT owner, queue, task, state, replays, created_at, run_at, started_at, finished_at FROM jobs INDEXED BY jobs_dead
WHERE state = 'failed';
CREATE VIEW living AS
SELECT owner, queue, task, state, replays, created_at, run_at, started_at FROM jobs INDEXED BY jobs_blocked WHERE state = 'blocked'
UNION ALL
SELECT owner, queue, task, state, replays, created_at, run_at, started_at FROM jobs INDEXED BY jobs_due WHERE state = 'scheduled'
UNION ALL
SELECT owner, queue, task, state, replays, created_at, run_at, started_at FROM jobs INDEXED BY jobs_held
WHERE state = 'held' AND held_by IS NOT NULL
UNION ALL
SELECT owner, queue, task, state, replays, created_at, run_at, started_at FROM jobs INDEXED BY jobs_ready WHERE state = 'ready'
UNION ALL
SELECT owner, queue, task, state, replays, created_at, run_at, started_at FROM jobs INDEXED BY jobs_running WHERE state = 'running';

-- Ends of jobs that neither succeeded nor failed, for the outbox: many statements end jobs, and these ends are rare. The
-- verb that finishes attempts tells of successes and failures by itself, of many at a time.
CREATE TRIGGER job_ended_otherwise AFTER UPDATE OF state ON jobs
WHEN new.finished_at IS NOT NULL AND old.finished_at IS NULL AND new.state <> 'succeeded' AND new.state <> 'failed'
BEGIN
    INSERT INTO outbox (at, kind, owner, subject, data)
    VALUES (new.finished_at, 'job.' || new.state, new.owner, new.id,
            json_object('queue', new.queue, 'task', new.task, 'reason', new.reason));
END;
