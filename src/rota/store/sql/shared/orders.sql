-- name: cancel_running
-- The first reason stays: the attempt was stopped for it.
UPDATE rota.jobs SET cancel = coalesce(cancel, :reason) WHERE id = ANY (:ids::uuid[]) AND state = 'running'
