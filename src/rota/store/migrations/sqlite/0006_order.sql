-- Rates by the window of whoever asks, a bound on the wait for several keys, and lone jobs that let others run while they wait.

-- A start counts for each job that asks by that job's own window: what is kept of it is when it was claimed, and how long
-- after that it may really have happened. `until`: how long it is kept; ten minutes at least, and as long as anyone looks back.
ALTER TABLE starts ADD COLUMN late INTEGER NOT NULL DEFAULT 500000;
CREATE INDEX starts_at ON starts (owner, key, at);
UPDATE starts SET until = max(until, at + late + 600000000);

-- Jobs that wait for several keys, a row for each. In whatever line such a job stands: whoever ranks more than nine steps of
-- ageing behind it (`latest`) must leave it room. Without that, two busy keys that become free in turn would never be free for it.
CREATE TABLE wanted (
    owner  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    job    TEXT    NOT NULL,
    latest INTEGER NOT NULL,
    PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX wanted_key ON wanted (owner, key, latest);

-- One for all that becomes of them: every trigger costs a claim a tenth, whether or not it concerns a job.
DROP TRIGGER special_job_moved;
CREATE TRIGGER special_job_moved AFTER UPDATE OF state ON jobs WHEN old.special
BEGIN
    INSERT OR IGNORE INTO freed SELECT 'k:' || owner || ':' || key FROM slots
    WHERE job = old.id AND old.state = 'running' AND new.state <> 'running';
    DELETE FROM slots WHERE job = old.id AND old.state = 'running' AND new.state <> 'running';
    -- It was let go by a key, and did not take it: someone else may.
    INSERT OR IGNORE INTO freed SELECT old.held_by
    WHERE old.held_by IS NOT NULL AND old.state = 'ready' AND new.state <> 'ready' AND new.state <> 'running';
    UPDATE gates SET opened_at = 1 WHERE job = old.id AND opened_at IS NULL
      AND (old.state = 'running' AND new.state <> 'running' OR new.finished_at IS NOT NULL
           OR new.state = 'held' AND new.held_by NOT LIKE 'a:%');   -- by something else: meanwhile the others may run
    DELETE FROM wanted WHERE job = old.id AND (new.state = 'running' OR new.finished_at IS NOT NULL);
END;
