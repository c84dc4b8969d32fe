-- name: unknown_tasks
SELECT value FROM json_each(:names) WHERE value NOT IN (SELECT name FROM tasks)

-- name: make_known
INSERT OR IGNORE INTO tasks (name, info, seen_at, offered) VALUES (:name, :info, :now, 0)

-- name: next_waiting_task
-- The next task with ready functions, and when the first of them was due.
SELECT j.queue, j.task, (SELECT f.run_at FROM jobs f
                         WHERE f.state = 'ready' AND f.kind = 'function' AND f.queue = j.queue AND f.task = j.task
                         ORDER BY f.rank, f.seq LIMIT 1)
FROM jobs j WHERE j.state = 'ready' AND j.kind = 'function' AND (j.queue, j.task) > (:queue, :task)
ORDER BY j.queue, j.task LIMIT 1

-- name: ever_offered
SELECT EXISTS (SELECT 1 FROM tasks WHERE name = :task AND offered)
    OR EXISTS (SELECT 1 FROM nodes n, json_each(iif(json_valid(n.tasks), n.tasks, '[]')) own
               WHERE (n.state = 'live' OR n.state = 'stopping') AND own.value = :task)

-- name: someone_waits
SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'ready' AND kind = 'function' AND queue = :queue AND task = :task
                 AND (:sees IS NULL OR owner = :sees))

-- name: overdue_functions
-- Of the first in line.
SELECT seq, id, fence FROM (
    SELECT seq, id, fence, run_at FROM jobs
    WHERE state = 'ready' AND kind = 'function' AND queue = :queue AND task = :task ORDER BY rank, seq LIMIT :limit)
WHERE run_at <= :before
