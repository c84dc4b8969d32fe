-- name: unknown_tasks
SELECT value FROM json_each(:names) WHERE value NOT IN (SELECT name FROM tasks)

-- name: offering
SELECT DISTINCT own.value, n.id FROM nodes n, json_each(iif(json_valid(n.tasks), n.tasks, '[]')) own
WHERE n.state = 'live' OR n.state = 'stopping'
ORDER BY own.value, n.id

-- name: unoffered
WITH RECURSIVE waiting(queue, task) AS (
    -- One index look-up per task, however many jobs each has.
    VALUES ('', '')
    UNION ALL
    SELECT j.queue, j.task FROM waiting w CROSS JOIN jobs j ON j.seq = (
        SELECT n.seq FROM jobs n WHERE n.state = 'ready' AND n.kind = 'function' AND (n.queue, n.task) > (w.queue, w.task)
        ORDER BY n.queue, n.task LIMIT 1)
)
SELECT w.queue, w.task, (SELECT f.run_at FROM jobs f
                         WHERE f.state = 'ready' AND f.kind = 'function' AND f.queue = w.queue AND f.task = w.task
                         ORDER BY f.rank, f.seq LIMIT 1)
FROM waiting w
WHERE (w.queue, w.task) > ('', '')
  AND NOT EXISTS (SELECT 1 FROM tasks WHERE name = w.task AND offered)
  AND NOT EXISTS (SELECT 1 FROM nodes n, json_each(iif(json_valid(n.tasks), n.tasks, '[]')) own
                  WHERE (n.state = 'live' OR n.state = 'stopping') AND own.value = w.task)
ORDER BY w.queue, w.task

-- name: set_aside_unoffered
-- Ends the first jobs in line, unless a node offers the task by now.
UPDATE jobs SET state = 'failed', finished_at = :now, reason = :reason, error_group = :error_group
WHERE seq IN (SELECT seq FROM (SELECT seq, run_at FROM jobs
                               WHERE state = 'ready' AND kind = 'function' AND queue = :queue AND task = :task
                               ORDER BY rank, seq LIMIT :limit)
              WHERE run_at <= :now - :grace)
  AND NOT EXISTS (SELECT 1 FROM tasks WHERE name = :task AND offered)
  AND NOT EXISTS (SELECT 1 FROM nodes n, json_each(iif(json_valid(n.tasks), n.tasks, '[]')) own
                  WHERE (n.state = 'live' OR n.state = 'stopping') AND own.value = :task)
RETURNING id, owner, fence, false
