-- name: moment
SELECT rota.clock(:now)

-- name: tally_cursors
SELECT part, until FROM rota.tallied

-- name: put_tally_cursor
INSERT INTO rota.tallied (part, until) VALUES (:part, :until) ON CONFLICT (part) DO UPDATE SET until = excluded.until

-- name: tally_until
-- The end of the next step: about `limit` ended jobs, and all that ended at the same moment.
SELECT coalesce(
    (SELECT finished_at FROM rota.ended WHERE finished_at > :after AND finished_at <= rota.clock(:now) - :settled::bigint
     ORDER BY finished_at LIMIT 1 OFFSET :limit),
    (SELECT max(finished_at) FROM rota.ended WHERE finished_at > :after AND finished_at <= rota.clock(:now) - :settled::bigint))

-- name: ended_tallies
-- Ended jobs by minute, owner, queue and task: their ends by state; their orders and starts, in the minutes of these; and
-- the histograms of waits and runs, with eight bins an octave (model.statistics). A replayed job was ordered once.
WITH e AS MATERIALIZED (
    SELECT owner, queue, task, state, replays, created_at, started_at, finished_at / 60000000 * 60000000 AS at,
           CASE WHEN state IN ('succeeded', 'failed') THEN greatest(started_at - run_at, 1) END AS wait,
           CASE WHEN state IN ('succeeded', 'failed') THEN greatest(finished_at - started_at, 1) END AS run
    FROM rota.ended
    WHERE finished_at > :after AND finished_at <= :until AND (:sees::text IS NULL OR owner = :sees)
      AND (:queue::text IS NULL OR queue = :queue) AND (:task::text IS NULL OR task = :task)
)
SELECT at, owner, queue, task, state, NULL::integer, count(*), 0 FROM e GROUP BY at, owner, queue, task, state
UNION ALL
SELECT created_at / 60000000 * 60000000, owner, queue, task, 'ordered', NULL, count(*), 0 FROM e
WHERE replays = 0 GROUP BY 1, owner, queue, task
UNION ALL
SELECT started_at / 60000000 * 60000000, owner, queue, task, 'started', NULL, count(*), 0 FROM e
WHERE started_at IS NOT NULL GROUP BY 1, owner, queue, task
UNION ALL
SELECT at, owner, queue, task, 'wait', CAST(floor(8 * ln(wait) / ln(2)) AS integer), count(*), CAST(sum(wait) AS bigint)
FROM e WHERE wait IS NOT NULL GROUP BY at, owner, queue, task, 6
UNION ALL
SELECT at, owner, queue, task, 'run', CAST(floor(8 * ln(run) / ln(2)) AS integer), count(*), CAST(sum(run) AS bigint)
FROM e WHERE run IS NOT NULL GROUP BY at, owner, queue, task, 6

-- name: living_tallies
-- Orders and starts of jobs that have not ended.
SELECT created_at / 60000000 * 60000000, queue, 'ordered', count(*) FROM rota.living
WHERE created_at >= :since AND replays = 0 AND (:sees::text IS NULL OR owner = :sees)
  AND (:queue::text IS NULL OR queue = :queue) AND (:task::text IS NULL OR task = :task) GROUP BY 1, queue
UNION ALL
SELECT started_at / 60000000 * 60000000, queue, 'started', count(*) FROM rota.living
WHERE started_at >= :since AND (:sees::text IS NULL OR owner = :sees)
  AND (:queue::text IS NULL OR queue = :queue) AND (:task::text IS NULL OR task = :task) GROUP BY 1, queue

-- name: living_states
SELECT queue, state, count(*), min(run_at) FROM rota.living
WHERE (:sees::text IS NULL OR owner = :sees) AND (:queue::text IS NULL OR queue = :queue)
  AND (:task::text IS NULL OR task = :task) GROUP BY queue, state

-- name: tally_rows
SELECT at, queue, body FROM rota.tallies
WHERE grain = :grain AND at >= :since AND (:sees::text IS NULL OR owner = :sees)
  AND (:queue::text IS NULL OR queue = :queue) AND (:task::text IS NULL OR task = :task)

-- name: same_tallies
SELECT t.grain, t.at, t.owner, t.queue, t.task, t.body
FROM unnest(:grains::bigint[], :ats::bigint[], :owners::text[], :queues::text[], :tasks::text[]) AS w(grain, at, owner, queue, task)
JOIN rota.tallies t ON t.grain = w.grain AND t.at = w.at AND t.owner = w.owner AND t.queue = w.queue AND t.task = w.task

-- name: put_tallies
INSERT INTO rota.tallies (grain, at, owner, queue, task, body)
SELECT w.grain, w.at, w.owner, w.queue, w.task, w.body
FROM unnest(:grains::bigint[], :ats::bigint[], :owners::text[], :queues::text[], :tasks::text[], :bodies::text[])
     AS w(grain, at, owner, queue, task, body)
WHERE true
ON CONFLICT (grain, at, owner, queue, task) DO UPDATE SET body = excluded.body

-- name: start_tallying
INSERT INTO rota.tallied (part, until) VALUES ('ended', 0) ON CONFLICT DO NOTHING

-- name: tallied
-- The row stays locked until the tallies are written.
UPDATE rota.tallied SET until = :until WHERE part = 'ended' AND until = :after

-- name: delete_old_tallies
DELETE FROM rota.tallies WHERE grain = :grain AND at < :before
