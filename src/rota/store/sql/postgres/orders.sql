-- name: insert_jobs
-- A few jobs; many go by COPY.
INSERT INTO rota.jobs (id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at,
                       spec, digest, args, retry, timeout, requirements, special)
SELECT id, :owner, state, queue, kind, task, priority, rank, run_at, expires_at, :created_at,
       spec, digest, args, retry, timeout, requirements, special
FROM unnest(:ids::uuid[], :states::text[], :queues::text[], :kinds::text[], :tasks::text[], :priorities::smallint[],
            :ranks::bigint[], :due::bigint[], :expiries::bigint[], :specs::text[], :digests::text[], :args::text[],
            :retries::text[], :timeouts::bigint[], :requirements::text[], :specials::boolean[])
  AS new(id, state, queue, kind, task, priority, rank, run_at, expires_at, spec, digest, args, retry, timeout, requirements, special)

-- name: accept
-- Orders with keys, one after the other; each sees what those before it have done.
SELECT answer FROM rota.accept_all(:owner, :orders::text[]::jsonb[], :key_life, :step, :now) AS answer

-- name: lock_jobs
-- Where these jobs stand, for those that the principal may see, held until the end of the transaction. In the order of
-- their ids, as everywhere: whoever locks several rows must not meet someone who comes the other way.
SELECT id::text, state, owner FROM rota.jobs
WHERE id = ANY (:ids::uuid[]) AND (:sees::text IS NULL OR owner = :sees)
ORDER BY id FOR UPDATE

-- name: lock_history
SELECT id::text, state, owner FROM rota.history
WHERE id = ANY (:ids::uuid[]) AND (:sees::text IS NULL OR owner = :sees)
ORDER BY id FOR UPDATE

-- name: end_waiting
-- Ends jobs that wait, without an attempt.
WITH gone AS (
    DELETE FROM rota.jobs WHERE id = ANY (:ids::uuid[]) AND node IS NULL RETURNING *
)
INSERT INTO rota.history (id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at, started_at, fence,
                          tries, failures, crashes, interruptions, replays, reason, spec, digest, args, retry, timeout, key,
                          requirements, finished_at, lasting)
SELECT id, owner, :state::text, queue, kind, task, priority, rank, run_at, expires_at, created_at, started_at, fence,
       tries, failures, crashes, interruptions, replays, :reason, spec, digest, args, retry, timeout, key, requirements,
       rota.clock(:now), :state::text = 'failed'
FROM gone

-- name: cancel_running
-- The first reason stays: it is what the attempt was stopped for.
UPDATE rota.jobs SET cancel = coalesce(cancel, :reason) WHERE id = ANY (:ids::uuid[]) AND state = 'running'

-- name: hurry_jobs
-- What is due already keeps its place.
UPDATE rota.jobs SET run_at = least(run_at, rota.clock(:now)),
                     rank = least(run_at, rota.clock(:now)) + priority * :step::bigint, level = 0, own_step = NULL
WHERE id = ANY (:ids::uuid[])

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
