-- name: insert_jobs
-- A few jobs; many go by COPY.
INSERT INTO rota.jobs (id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at,
                       spec, digest, args, retry, timeout, key)
SELECT id, :owner, state, queue, kind, task, priority, rank, run_at, expires_at, :created_at,
       spec, digest, args, retry, timeout, NULL
FROM unnest(:ids::uuid[], :states::text[], :queues::text[], :kinds::text[], :tasks::text[], :priorities::smallint[],
            :ranks::bigint[], :due::bigint[], :expiries::bigint[], :specs::text[], :digests::text[], :args::text[],
            :retries::text[], :timeouts::bigint[])
  AS new(id, state, queue, kind, task, priority, rank, run_at, expires_at, spec, digest, args, retry, timeout)

-- name: accept
-- Orders with keys, one after the other; each sees what those before it have done.
SELECT rota.accept(:owner, orders.body::jsonb, :key_life, :step, :now, false)
FROM unnest(:orders::text[]) WITH ORDINALITY AS orders(body, place) ORDER BY place

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
                          finished_at, lasting)
SELECT id, owner, :state::text, queue, kind, task, priority, rank, run_at, expires_at, created_at, started_at, fence,
       tries, failures, crashes, interruptions, replays, :reason, spec, digest, args, retry, timeout, key,
       rota.clock(:now), :state::text = 'failed'
FROM gone

-- name: cancel_running
-- The first reason stays: it is what the attempt was stopped for.
UPDATE rota.jobs SET cancel = coalesce(cancel, :reason) WHERE id = ANY (:ids::uuid[]) AND state = 'running'

-- name: replay_jobs
-- Back among the living under the old id. The budget of attempts starts again; fence and tries go on, so that nothing
-- old can pass for new. The last attempt, which stood in the row of history, becomes one of those that did not end the job.
WITH back AS (
    DELETE FROM rota.history WHERE id = ANY (:ids::uuid[]) RETURNING *
), kept AS (
    INSERT INTO rota.attempts (job, fence, number, node, started_at, finished_at, outcome, exit_code, error, result)
    SELECT id, fence, tries, coalesce(node, ''), started_at, finished_at, outcome, exit_code, error, result
    FROM back WHERE outcome IS NOT NULL AND started_at IS NOT NULL
)
INSERT INTO rota.jobs (id, owner, state, queue, kind, task, priority, rank, run_at, created_at, started_at, fence, tries,
                       replays, spec, digest, args, retry, timeout, key)
SELECT id, owner, 'scheduled', queue, kind, task, priority, rota.clock(:now) + priority * :step::bigint, rota.clock(:now),
       created_at, started_at, fence, tries, replays + 1, spec, digest, args, retry, timeout, key
FROM back

-- name: hurry_jobs
-- What is due already keeps its place.
UPDATE rota.jobs SET run_at = least(run_at, rota.clock(:now)),
                     rank = least(run_at, rota.clock(:now)) + priority * :step::bigint
WHERE id = ANY (:ids::uuid[])

-- name: delete_output
DELETE FROM rota.output WHERE job = ANY (:ids::uuid[])

-- name: delete_attempts
DELETE FROM rota.attempts WHERE job = ANY (:ids::uuid[])

-- name: delete_history
DELETE FROM rota.history WHERE id = ANY (:ids::uuid[])
