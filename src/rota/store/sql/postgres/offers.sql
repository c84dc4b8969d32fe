-- name: offering
SELECT DISTINCT own.task, n.id FROM rota.nodes n CROSS JOIN LATERAL unnest(n.tasks) AS own(task)
WHERE n.state IN ('live', 'stopping')
ORDER BY own.task, n.id

-- name: unoffered
WITH RECURSIVE waiting(queue, task) AS (
    -- One index look-up per task, however many jobs each has.
    (SELECT j.queue, j.task FROM rota.jobs j WHERE j.state = 'ready' AND j.kind = 'function' ORDER BY j.queue, j.task LIMIT 1)
    UNION ALL
    SELECT next.queue, next.task FROM waiting CROSS JOIN LATERAL (
        SELECT j.queue, j.task FROM rota.jobs j
        WHERE j.state = 'ready' AND j.kind = 'function' AND (j.queue, j.task) > (waiting.queue, waiting.task)
        ORDER BY j.queue, j.task LIMIT 1) AS next
)
SELECT w.queue, w.task, first.run_at FROM waiting w CROSS JOIN LATERAL (
    SELECT j.run_at FROM rota.jobs j WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = w.queue AND j.task = w.task
    ORDER BY j.rank, j.id LIMIT 1) AS first
WHERE NOT EXISTS (SELECT FROM rota.tasks t WHERE t.name = w.task AND t.offered)
  AND NOT EXISTS (SELECT FROM rota.nodes n WHERE n.state IN ('live', 'stopping') AND w.task = ANY (n.tasks))
ORDER BY w.queue, w.task

-- name: set_aside_unoffered
-- Ends the first jobs in line, unless a node offers the task by now.
WITH front AS MATERIALIZED (
    SELECT j.id, j.run_at FROM rota.jobs j
    WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = :queue AND j.task = :task
      AND NOT EXISTS (SELECT FROM rota.tasks t WHERE t.name = :task AND t.offered)
      AND NOT EXISTS (SELECT FROM rota.nodes n WHERE n.state IN ('live', 'stopping') AND :task = ANY (n.tasks))
    ORDER BY j.rank, j.id LIMIT :limit::integer FOR UPDATE OF j SKIP LOCKED
), gone AS (
    DELETE FROM rota.jobs j USING front
    WHERE j.id = front.id AND front.run_at <= rota.clock(:now) - :grace::bigint RETURNING j.*
), kept AS (
    INSERT INTO rota.history ({jobs.kept}, state, reason, finished_at, lasting, error_group)
    SELECT {jobs.kept}, 'failed', :reason, rota.clock(:now), true, :error_group FROM gone
)
SELECT id::text, owner, fence, tied FROM gone
