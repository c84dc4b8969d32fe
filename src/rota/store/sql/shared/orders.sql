-- name: cancel_running
-- The first reason stays: the attempt was stopped for it.
UPDATE rota.jobs SET cancel = coalesce(cancel, :reason) WHERE id = ANY (:ids::uuid[]) AND state = 'running'

-- name: hurry_jobs
-- These are locked, and scheduled. A job that is due already keeps its rank.
UPDATE rota.jobs SET run_at = least(run_at, rota.clock(:now)),
                     rank = least(run_at, rota.clock(:now)) + priority * :step::bigint, level = 0, own_step = NULL
WHERE id = ANY (:ids::uuid[])
