-- name: lane
-- The head of one lane, from the index. Expired jobs are left to the promoter. `bounded`: some user has a quota for running
-- jobs, which its jobs need like a key.
SELECT json_group_array(json_array(rank, seq, special)) FROM (
    SELECT rank, seq, special OR :bounded AND EXISTS (SELECT 1 FROM running_quotas q WHERE q.owner = jobs.owner) AS special FROM jobs
    WHERE state = 'ready' AND queue = :queue AND kind = :kind AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY rank, seq LIMIT :limit)

-- name: near_functions
-- The first functions of a queue in the order of rank, and whether this node offers them.
SELECT json_group_array(json_array(rank, seq, special, own)) FROM (
    SELECT rank, seq, special OR :bounded AND EXISTS (SELECT 1 FROM running_quotas q WHERE q.owner = jobs.owner) AS special,
           task IN (SELECT value FROM json_each((SELECT tasks FROM nodes WHERE incarnation = :incarnation))) AS own
    FROM jobs
    WHERE state = 'ready' AND queue = :queue AND kind = 'function' AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY rank, seq LIMIT :limit)

-- name: first_functions
-- The first ready function of each task of the node behind a place in the line, best first.
SELECT json_group_array(json_array(task, rank, seq, special)) FROM (
    SELECT j.task, j.rank, j.seq, j.special OR :bounded AND EXISTS (SELECT 1 FROM running_quotas q WHERE q.owner = j.owner) AS special
    FROM json_each((SELECT tasks FROM nodes WHERE incarnation = :incarnation)) own
    JOIN jobs j ON j.seq = (SELECT f.seq FROM jobs f
                            WHERE f.state = 'ready' AND f.kind = 'function' AND f.queue = :queue AND f.task = own.value
                              AND (f.rank, f.seq) > (:rank, :seq) AND (f.expires_at IS NULL OR f.expires_at > :now)
                            ORDER BY f.rank, f.seq LIMIT 1)
    ORDER BY j.rank, j.seq LIMIT :limit)

-- name: functions_of
-- The functions of one task.
SELECT json_group_array(json_array(rank, seq, special)) FROM (
    SELECT rank, seq, special OR :bounded AND EXISTS (SELECT 1 FROM running_quotas q WHERE q.owner = jobs.owner) AS special FROM jobs
    WHERE state = 'ready' AND kind = 'function' AND queue = :queue AND task = :task AND (rank, seq) > (:rank, :seq)
      AND (expires_at IS NULL OR expires_at > :now)
    ORDER BY rank, seq LIMIT :limit)

-- name: take
-- The fence rises with the claim; an attempt is counted only when it is started.
UPDATE jobs SET state = 'running', fence = fence + 1, node = :incarnation, cancel = NULL, reason = NULL, held_by = NULL,
                started_at = :started_at, tries = tries + (:started_at IS NOT NULL),
                expires_at = iif(:started_at IS NULL, expires_at, NULL)   -- a started job can't expire
WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: taken
-- All jobs that were taken, as one JSON text that decodes straight into values. A first attempt finds no checkpoint, and
-- does not look for one.
SELECT json_group_array(json_array(
           {jobs.claimed j p; job_id = j.id; number = j.tries + (j.started_at IS NULL); slack = NULL; flow = j.flow;
            state = iif(j.fence > 1, (SELECT c.state FROM checkpoints c WHERE c.job = j.seq), NULL)}) ORDER BY j.rank, j.seq)
FROM jobs j LEFT JOIN payloads p USING (seq) WHERE j.seq IN (SELECT value FROM json_each(:seqs))

-- name: set_aside
UPDATE jobs SET state = 'failed', finished_at = :now, node = NULL, cancel = NULL, reason = :reason, error_group = :error_group
WHERE seq = :seq

-- name: append_set_aside
INSERT INTO outbox (at, kind, owner, subject, data)
SELECT :at, 'job.failed', owner, id, json_object('queue', queue, 'task', task, 'reason', reason, 'fence', fence)
FROM jobs WHERE seq = :seq

-- name: start_states
SELECT wanted.key, j.seq, j.started_at, iif(j.expires_at <= :now, coalesce(j.cancel, 'expired'), j.cancel),
       j.owner, j.task, j.queue, j.requirements
FROM json_each(:refs) wanted
JOIN jobs j ON j.id = wanted.value ->> 0 AND j.fence = wanted.value ->> 1
WHERE j.state = 'running'

-- name: start_jobs
UPDATE jobs SET started_at = :now, tries = tries + 1, expires_at = NULL WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: append_started
-- Starts of watched users, an entry for all of an owner, queue, task and attempt.
INSERT INTO outbox (at, kind, owner, subject, data)
SELECT :at, 'job.started', j.owner, '',
       json_object('queue', j.queue, 'task', j.task, 'attempt', j.tries, 'node', n.id, 'jobs', json_group_array(j.id))
FROM jobs j JOIN nodes n ON n.incarnation = j.node
WHERE j.seq IN (SELECT value FROM json_each(:seqs)) AND j.owner IN (SELECT owner FROM watches WHERE until > :at)
GROUP BY j.owner, j.queue, j.task, j.tries, n.id

-- name: hand_back_states
-- Which of these attempts run, started or not; and which were handed back before: not running, and no attempt recorded.
SELECT wanted.key, j.seq, j.state = 'running' AND j.started_at IS NULL, j.state <> 'running' AND a.job IS NULL
FROM json_each(:refs) wanted
JOIN jobs j ON j.id = wanted.value ->> 0 AND j.fence = wanted.value ->> 1
LEFT JOIN attempts a ON a.job = j.seq AND a.fence = j.fence

-- name: hand_back_jobs
-- A job that was cancelled meanwhile ends here; one that expired goes back, and the promoter ends it.
UPDATE jobs SET state = iif(cancel IS NULL, 'ready', 'cancelled'), finished_at = iif(cancel IS NULL, NULL, :now),
                node = NULL, reason = cancel, cancel = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: attempt_states
-- How each settlement finds its job: still running under that fence, or ended under it before (then: with which outcome).
SELECT json_group_array(json_array(wanted.key, j.seq, j.state = 'running' AND j.fence = wanted.value ->> 1, j.cancel,
                                   a.outcome))
FROM json_each(:refs) wanted
JOIN jobs j ON j.id = wanted.value ->> 0
LEFT JOIN attempts a ON a.job = j.seq AND a.fence = wanted.value ->> 1

-- name: task_of
-- As bytes: it may have been written by hand.
SELECT CAST(task AS BLOB) FROM jobs WHERE id = :id

-- name: record_attempts
-- One row per attempt, written at its end (REPLACE: a row written by hand must not fail this). Columns of a row: seq,
-- ending, exit code, error, result, ...
INSERT OR REPLACE INTO attempts ({attempts.kept})
SELECT {attempts.kept j; job = j.seq; number = j.tries; node = coalesce(n.id, j.node); finished_at = :now; outcome = r.value ->> 1;
        exit_code = r.value ->> 2; error = r.value ->> 3; result = r.value ->> 4; usage = r.value ->> 12}
FROM json_each(:rows) r
JOIN jobs j ON j.seq = r.value ->> 0
LEFT JOIN nodes n ON n.incarnation = j.node
WHERE j.started_at IS NOT NULL

-- name: succeed_jobs
-- The same as move_jobs, for plain successes: the most frequent case.
UPDATE jobs SET state = 'succeeded', finished_at = :now, node = NULL, cancel = NULL, reason = NULL
WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: move_jobs
-- ... state, delay (null: rank and time stay), failures, crashes, interruptions, reason, terminal, usage, error group.
UPDATE jobs SET
    state         = r.value ->> 5,
    run_at        = iif(r.value ->> 6 IS NULL, run_at, :now + (r.value ->> 6)),
    rank          = iif(r.value ->> 6 IS NULL, rank, :now + (r.value ->> 6) + priority * :step),
    level         = iif(r.value ->> 6 IS NULL, level, 0),
    own_step      = iif(r.value ->> 6 IS NULL, own_step, NULL),
    failures      = failures + (r.value ->> 7),
    crashes       = crashes + (r.value ->> 8),
    interruptions = interruptions + (r.value ->> 9),
    reason        = r.value ->> 10,
    finished_at   = iif(r.value ->> 11, :now, NULL),
    node          = NULL,
    cancel        = NULL,
    error_group   = r.value ->> 13
FROM json_each(:rows) r
WHERE jobs.seq = r.value ->> 0

-- name: open_attempts
-- Which of these attempts still run, so that their output may be kept; and their owners, if these have a quota for output.
SELECT wanted.key, j.seq, (SELECT u.name FROM users u WHERE u.name = j.owner AND u.output_allowed IS NOT NULL)
FROM json_each(:refs) wanted
JOIN jobs j ON j.id = wanted.value ->> 0 AND j.fence = wanted.value ->> 1
WHERE j.state = 'running'

-- name: late_attempts
-- Which of these attempts ended because their node was gone, with owners as above.
SELECT wanted.key, j.seq, (SELECT u.name FROM users u WHERE u.name = j.owner AND u.output_allowed IS NOT NULL)
FROM json_each(:refs) wanted
JOIN jobs j ON j.id = wanted.value ->> 0
JOIN attempts a ON a.job = j.seq AND a.fence = wanted.value ->> 1
WHERE a.outcome = 'crashed' OR a.outcome = 'interrupted' OR a.outcome = 'cancelled'

-- name: cut_output
DELETE FROM output WHERE job = ? AND fence = ? AND number BETWEEN ? AND ?

-- name: kept_chunks
-- Which of these chunks (job, fence, number) are there already.
SELECT wanted.key
FROM json_each(:chunks) wanted
JOIN jobs j ON j.id = wanted.value ->> 0
JOIN output o ON o.job = j.seq AND o.fence = wanted.value ->> 1 AND o.number = wanted.value ->> 2

-- name: insert_output
INSERT OR IGNORE INTO output (job, fence, number, at, kept_at, stream, body) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: note_states
-- For each note: whether its attempt runs, and the numbers of the last progress and the last saved state.
SELECT wanted.key, j.seq, j.state = 'running' AND j.fence = wanted.value ->> 1, coalesce(p.number, -1), coalesce(c.number, -1)
FROM json_each(:refs) wanted
JOIN jobs j ON j.id = wanted.value ->> 0
LEFT JOIN progress p ON p.job = j.seq AND p.fence = wanted.value ->> 1
LEFT JOIN checkpoints c ON c.job = j.seq AND c.fence = wanted.value ->> 1

-- name: keep_progress
INSERT OR REPLACE INTO progress (job, fence, number, fraction, text, at) VALUES (?, ?, ?, ?, ?, ?)

-- name: keep_state
INSERT OR REPLACE INTO checkpoints (job, fence, number, state) VALUES (?, ?, ?, ?)

-- name: forget_states
DELETE FROM checkpoints WHERE job IN (SELECT value FROM json_each(:seqs))

-- name: due
SELECT seq FROM jobs WHERE state = 'scheduled' AND run_at <= :now ORDER BY run_at LIMIT :limit

-- name: due_of
-- The order of the columns makes the id the way to the row: `+` keeps the index of all scheduled jobs out of it.
SELECT seq FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND +state = 'scheduled' AND +run_at <= :now
  AND (expires_at IS NULL OR +expires_at > :now)

-- name: make_ready
UPDATE jobs SET state = 'ready' WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: expired
SELECT seq FROM jobs
WHERE expires_at <= :now AND state IN ('blocked', 'scheduled', 'held', 'ready') ORDER BY expires_at LIMIT :limit

-- name: expire_jobs
UPDATE jobs SET state = 'cancelled', finished_at = :now, held_by = NULL, reason = 'expired' WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: next_instant
SELECT min(at) FROM (
    SELECT min(run_at) AS at FROM jobs WHERE state = 'scheduled'
    UNION ALL
    SELECT min(expires_at) FROM jobs
    WHERE expires_at IS NOT NULL AND state IN ('blocked', 'scheduled', 'held', 'ready'))

-- name: any_ready
SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'ready')
