-- name: insert_jobs
-- A few jobs; many go by COPY.
INSERT INTO rota.jobs ({jobs.inserted}) SELECT * FROM unnest({jobs.inserted[]})

-- name: accept
-- Orders with keys, one after the other; each sees the jobs and keys of earlier ones.
SELECT answer FROM rota.accept_all(:owner, :orders::text[]::jsonb[], :key_life, :step, :now) AS answer

-- name: lock_jobs
-- The states of these jobs, if the principal may see them, locked until the end of the transaction. Rows are locked in
-- the order of ids, as everywhere, to avoid deadlocks.
SELECT id::text, state, owner FROM rota.jobs
WHERE id = ANY (:ids::uuid[]) AND (:sees::text IS NULL OR owner = :sees)
ORDER BY id FOR UPDATE

-- name: lock_history
SELECT id::text, state, owner, queue, task FROM rota.history
WHERE id = ANY (:ids::uuid[]) AND (:sees::text IS NULL OR owner = :sees)
ORDER BY id FOR UPDATE

-- name: cancel_waiting
WITH gone AS (
    DELETE FROM rota.jobs WHERE id = ANY (:ids::uuid[]) AND node IS NULL RETURNING *
), told AS (
    INSERT INTO rota.outbox (at, kind, owner, subject, data)
    SELECT rota.clock(:now), 'job.cancelled', owner, '',
           json_build_object('queue', queue, 'task', task, 'reason', :reason::text, 'jobs', json_agg(id))::text
    FROM gone GROUP BY owner, queue, task
)
INSERT INTO rota.history ({jobs.kept}, state, reason, finished_at, lasting)
SELECT {jobs.kept}, 'cancelled', :reason, rota.clock(:now), false FROM gone

-- name: delete_output
DELETE FROM rota.output WHERE job = ANY (:ids::uuid[])

-- name: delete_attempts
DELETE FROM rota.attempts WHERE job = ANY (:ids::uuid[])

-- name: delete_progress
DELETE FROM rota.progress WHERE job = ANY (:ids::uuid[])

-- name: forget_states
DELETE FROM rota.checkpoints WHERE job = ANY (:ids::uuid[])

-- name: delete_history
DELETE FROM rota.history WHERE id = ANY (:ids::uuid[])

-- name: hurry_jobs
-- These are locked, and scheduled: a condition on the state would invite the index of all scheduled jobs. A job that is
-- due already keeps its rank.
UPDATE rota.jobs SET run_at = least(run_at, rota.clock(:now)),
                     rank = least(run_at, rota.clock(:now)) + priority * :step::bigint, level = 0, own_step = NULL
WHERE id = ANY (:ids::uuid[])
