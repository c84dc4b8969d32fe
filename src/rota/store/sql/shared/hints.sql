-- name: scheduled_jobs
-- By the index on due times; only jobs of one instant are sorted.
SELECT j.run_at, j.id::text FROM rota.jobs j
WHERE j.state = 'scheduled' AND j.run_at <= :until::bigint AND (j.run_at, j.id) > (:at::bigint, :id::uuid)
ORDER BY j.run_at, j.id LIMIT :limit::integer

-- name: due_times
-- A plain condition on the state would invite the index of all scheduled jobs.
SELECT j.run_at, j.id::text FROM rota.jobs j
WHERE j.id = ANY (:ids::uuid[]) AND CASE j.state WHEN 'scheduled' THEN true ELSE false END
