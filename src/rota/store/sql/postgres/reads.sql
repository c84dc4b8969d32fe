-- name: job_rows
SELECT j.id::text, j.owner, j.task, j.kind, j.spec, j.args, j.queue, j.priority, j.state, j.reason, j.run_at, j.created_at,
       j.started_at, NULL::bigint, j.expires_at, j.timeout, j.retry, j.fence, j.tries, j.failures, j.crashes,
       j.interruptions, j.replays, coalesce(n.id, j.node), j.cancel IS NOT NULL, j.key, j.requirements,
       (SELECT json_build_array(t.fraction, t.text, t.at)::text FROM rota.progress t WHERE t.job = j.id)
FROM rota.jobs j LEFT JOIN rota.nodes n ON n.incarnation = j.node
WHERE j.id = ANY (:ids::uuid[]) AND (:sees::text IS NULL OR j.owner = :sees)

-- name: history_rows
-- ... and behind them the last attempt.
SELECT h.id::text, h.owner, h.task, h.kind, h.spec, h.args, h.queue, h.priority, h.state, h.reason, h.run_at, h.created_at,
       h.started_at, h.finished_at, h.expires_at, h.timeout, h.retry, h.fence, h.tries, h.failures, h.crashes,
       h.interruptions, h.replays, NULL::text, false, h.key, h.requirements,
       (SELECT json_build_array(t.fraction, t.text, t.at)::text FROM rota.progress t WHERE t.job = h.id),
       h.node AS ran_on, h.outcome, h.exit_code, h.error, h.result, h.usage
FROM rota.history h WHERE h.id = ANY (:ids::uuid[]) AND (:sees::text IS NULL OR h.owner = :sees)

-- name: attempt_rows
SELECT job::text, number, fence, node, started_at, finished_at, outcome, exit_code, error, result, usage
FROM rota.attempts WHERE job = ANY (:ids::uuid[]) ORDER BY job, fence

-- name: ids_ending
SELECT id::text FROM rota.jobs WHERE right(id::text, length(:tail)) = :tail AND (:sees::text IS NULL OR owner = :sees)
UNION ALL
SELECT id::text FROM rota.history WHERE right(id::text, length(:tail)) = :tail AND (:sees::text IS NULL OR owner = :sees)
LIMIT 3

-- name: ids_beginning
(SELECT id::text FROM rota.jobs WHERE id BETWEEN :low AND :high AND (:sees::text IS NULL OR owner = :sees) ORDER BY id LIMIT 3)
UNION ALL
(SELECT id::text FROM rota.history WHERE id BETWEEN :low AND :high AND (:sees::text IS NULL OR owner = :sees) ORDER BY id LIMIT 3)
ORDER BY 1 LIMIT 3

-- name: owns_job
SELECT EXISTS (SELECT FROM rota.jobs WHERE id = :id AND (:sees::text IS NULL OR owner = :sees))
    OR EXISTS (SELECT FROM rota.history WHERE id = :id AND (:sees::text IS NULL OR owner = :sees))

-- name: output_rows
-- A repeat that crossed the first on its way may be kept twice; it is shown once.
SELECT DISTINCT ON (fence, number) fence, number, at, stream, body FROM rota.output
WHERE job = :id AND (fence, number) > (:fence::bigint, :number::bigint) ORDER BY fence, number LIMIT :limit

-- name: state_counts
SELECT state, count(*) FROM rota.jobs WHERE :sees::text IS NULL OR owner = :sees GROUP BY state
UNION ALL
SELECT state, count(*) FROM rota.history WHERE :sees::text IS NULL OR owner = :sees GROUP BY state

-- name: task_rows
SELECT info FROM rota.tasks ORDER BY name

-- name: append_event
INSERT INTO rota.outbox (at, kind, owner, subject, data) VALUES (rota.clock(:now), :kind, :owner, :subject, :data)

-- name: append_events
INSERT INTO rota.outbox (at, kind, owner, subject, data)
SELECT rota.clock(:now), :kind, owner, subject, data
FROM unnest(:subjects::text[], :owners::text[], :data::text[]) AS new(subject, owner, data)

-- name: any_unread
SELECT EXISTS (SELECT FROM rota.outbox WHERE seq IS NULL)

-- name: number_events
WITH unread AS MATERIALIZED (
    SELECT id FROM rota.outbox WHERE seq IS NULL ORDER BY id LIMIT 10000
), placed AS MATERIALIZED (
    SELECT id, nextval('rota.outbox_positions') AS seq FROM unread
)
UPDATE rota.outbox o SET seq = placed.seq FROM placed WHERE o.id = placed.id

-- name: event_rows
SELECT seq, at, kind, owner, subject, data FROM rota.outbox
WHERE seq > :after AND (:sees::text IS NULL OR owner = :sees) ORDER BY seq LIMIT :limit
