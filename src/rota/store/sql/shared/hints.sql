-- name: scheduled_jobs
-- By the index on due times; only jobs of one instant are sorted.
SELECT j.run_at, j.id::text FROM rota.jobs j
WHERE j.state = 'scheduled' AND j.run_at <= :until::bigint AND (j.run_at, j.id) > (:at::bigint, :id::uuid)
ORDER BY j.run_at, j.id LIMIT :limit::integer
