-- name: settle
SELECT ready, later, skipped, unsettled FROM rota.settle(:only::uuid[], :now, :step::bigint, :most::integer)

-- name: unsettled_of
SELECT DISTINCT job::text FROM rota.settling WHERE job = ANY (:ids::uuid[])

-- name: open_edges_of
SELECT count(*) FROM (SELECT FROM rota.edges WHERE parent = ANY (:ids::uuid[]) AND state = 'open' LIMIT :most::integer) one

-- name: anyone_waits
SELECT EXISTS (SELECT FROM rota.edges WHERE state = 'open')

-- name: skipped_below
-- Jobs that were skipped because of these, directly or not; an edge that is clear was one of several causes.
WITH RECURSIVE below(id) AS (
    -- (OFFSET 0: from the parents down, whatever the planner's statistics say.)
    SELECT e.child FROM rota.edges e
    CROSS JOIN LATERAL (SELECT FROM rota.history h WHERE h.id = e.child AND h.state = 'skipped' OFFSET 0) AS skipped
    WHERE e.parent = ANY (:ids::uuid[]) AND e.state IN ('broken', 'clear')
    UNION
    SELECT e.child FROM below
    CROSS JOIN LATERAL (SELECT child FROM rota.edges WHERE parent = below.id AND state IN ('broken', 'clear') OFFSET 0) AS e
    CROSS JOIN LATERAL (SELECT FROM rota.history h WHERE h.id = e.child AND h.state = 'skipped' OFFSET 0) AS skipped
)
SELECT id::text FROM below

-- name: reopen_jobs
-- Moves jobs back from the history under their old ids; jobs with parents wait for them again. The budget of attempts
-- starts again; fence and tries go on rising, so that a write of an old attempt stays stale. The last attempt, which
-- was in the row of history, becomes a row of `attempts`.
WITH back AS (
    DELETE FROM rota.history WHERE id = ANY (:ids::uuid[]) RETURNING *
), kept AS (
    INSERT INTO rota.attempts ({attempts.kept}) SELECT {attempts.kept; job = id; number = tries; node = coalesce(node, '')}
    FROM back WHERE outcome IS NOT NULL AND started_at IS NOT NULL
), again AS MATERIALIZED (
    -- An edge that was met stays met if its parent was purged: a dead letter is kept for longer than its parents.
    SELECT e.child, e.parent, e.state <> 'met' OR EXISTS (SELECT FROM rota.jobs j WHERE j.id = e.parent)
                              OR EXISTS (SELECT FROM rota.history h WHERE h.id = e.parent) AS open
    FROM rota.edges e WHERE e.child = ANY (:ids::uuid[])
), opened AS (
    UPDATE rota.edges e SET state = 'open' FROM again
    WHERE e.child = again.child AND e.parent = again.parent AND again.open
), looked_at AS (
    INSERT INTO rota.settling (job)
    SELECT DISTINCT parent FROM again WHERE open AND parent <> ALL (:ids::uuid[])
)
INSERT INTO rota.jobs ({jobs.order}, owner, state, rank, run_at, created_at, started_at, fence, tries, replays, special,
                       parents, waits, tied)
SELECT {jobs.order}, owner, CASE WHEN above.open > 0 THEN 'blocked' ELSE 'scheduled' END,
       rota.clock(:now) + priority * :step::bigint, rota.clock(:now), created_at, started_at, fence, tries,
       replays + (id = ANY (:replayed::uuid[]))::integer, coalesce(requirements::jsonb ?| '{keys,alone}', false), above.every, above.open,
       EXISTS (SELECT FROM rota.edges e WHERE e.parent = back.id)
FROM (SELECT set_config('rota.reopens', 'on', true)) AS no_orders   -- for `rota.tell_orders`
CROSS JOIN back CROSS JOIN LATERAL (SELECT count(*) AS every, count(*) FILTER (WHERE again.open) AS open FROM again WHERE again.child = back.id) AS above

-- name: parent_rows
SELECT e.parent::text, coalesce(j.task, h.task), coalesce(j.state, h.state), e.need, e.state,
       CASE WHEN h.state = 'succeeded' THEN h.result END, m.name, e.fills
FROM rota.edges e
LEFT JOIN LATERAL (SELECT * FROM rota.members WHERE job = e.parent OFFSET 0) AS m ON true
LEFT JOIN LATERAL (SELECT * FROM rota.jobs WHERE id = e.parent OFFSET 0) AS j ON true
LEFT JOIN LATERAL (SELECT * FROM rota.history WHERE id = e.parent OFFSET 0) AS h ON true
WHERE e.child = :id ORDER BY e.parent

-- name: workflow_rows
SELECT f.id::text, f.owner, f.name, f.created_at FROM rota.workflows f
WHERE (:sees::text IS NULL OR f.owner = :sees) AND (:name::text IS NULL OR f.name = :name)
  AND (:ids::uuid[] IS NULL OR f.id = ANY (:ids))
  AND (:after_id::uuid IS NULL OR (f.created_at, f.id) < (:after_at::bigint, :after_id::uuid))
ORDER BY f.created_at DESC, f.id DESC LIMIT :limit::integer

-- name: workflow_counts
SELECT m.workflow::text, coalesce(j.state, h.state), h.skip_cause, count(*)
FROM unnest(:ids::uuid[]) AS wanted(id)
CROSS JOIN LATERAL (SELECT * FROM rota.members WHERE workflow = wanted.id OFFSET 0) AS m
LEFT JOIN LATERAL (SELECT * FROM rota.jobs WHERE id = m.job OFFSET 0) AS j ON true
LEFT JOIN LATERAL (SELECT * FROM rota.history WHERE id = m.job OFFSET 0) AS h ON true
WHERE (j.id IS NOT NULL OR h.id IS NOT NULL) GROUP BY 1, 2, 3

-- name: workflow_jobs
SELECT m.job::text, coalesce(j.task, h.task), coalesce(j.state, h.state), coalesce(j.reason, h.reason),
       coalesce(j.started_at, h.started_at), h.finished_at, m.name,
       CASE WHEN length(coalesce(j.args, h.args)) <= 1000 AND coalesce(j.spec, h.spec) NOT LIKE '%"secrets"%' THEN coalesce(j.args, h.args) END
FROM rota.members m
LEFT JOIN LATERAL (SELECT * FROM rota.jobs WHERE id = m.job OFFSET 0) AS j ON true
LEFT JOIN LATERAL (SELECT * FROM rota.history WHERE id = m.job OFFSET 0) AS h ON true
WHERE m.workflow = :id AND (j.id IS NOT NULL OR h.id IS NOT NULL) ORDER BY m.place, m.job

-- name: workflow_edges
SELECT e.child::text, e.parent::text, e.need, e.fills FROM rota.members m CROSS JOIN LATERAL (SELECT * FROM rota.edges WHERE child = m.job OFFSET 0) AS e
WHERE m.workflow = :id ORDER BY m.place, m.job, e.parent

-- name: workflows_of_jobs
SELECT job::text, workflow::text, name FROM rota.members WHERE job = ANY (:ids::uuid[])

-- name: resolve_workflow
SELECT id::text FROM rota.workflows
WHERE (:sees::text IS NULL OR owner = :sees)
  AND (left(id::text, length(:part)) = :part OR right(id::text, length(:part)) = :part OR name = :part)
ORDER BY created_at DESC LIMIT 3

-- name: delete_edges
DELETE FROM rota.edges WHERE child = ANY (:ids::uuid[])

-- name: delete_members
DELETE FROM rota.members WHERE job = ANY (:ids::uuid[])

-- name: sweep_edges
-- A piece of a walk through all edges. Edges of missing children are left over from a dropped day.
WITH looked AS MATERIALIZED (
    SELECT ctid AS place, child, parent, at FROM rota.edges WHERE (child, parent) > (:first::uuid, :second::uuid)
    ORDER BY child, parent LIMIT :most::integer
), over AS MATERIALIZED (
    SELECT l.place FROM looked l WHERE l.at < rota.clock(:now) - :age::bigint
      AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = l.child) AND NOT EXISTS (SELECT FROM rota.history h WHERE h.id = l.child)
), gone AS (
    DELETE FROM rota.edges e USING over o WHERE e.ctid = o.place RETURNING 1
)
SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM gone), child::text, parent::text
FROM looked ORDER BY child DESC, parent DESC LIMIT 1

-- name: sweep_members
-- The same for the members of workflows.
WITH looked AS MATERIALIZED (
    SELECT job FROM rota.members WHERE job > :first::uuid ORDER BY job LIMIT :most::integer
), gone AS (
    DELETE FROM rota.members m USING looked l
    WHERE m.job = l.job
      AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = l.job) AND NOT EXISTS (SELECT FROM rota.history h WHERE h.id = l.job)
    RETURNING 1
)
SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM gone), job::text FROM looked ORDER BY job DESC LIMIT 1

-- name: sweep_workflows
-- And for workflows that have no members any more.
WITH looked AS MATERIALIZED (
    SELECT id, created_at FROM rota.workflows WHERE id > :first::uuid ORDER BY id LIMIT :most::integer
), gone AS (
    DELETE FROM rota.workflows f USING looked l
    WHERE f.id = l.id AND l.created_at < rota.clock(:now) - :age::bigint
      AND NOT EXISTS (SELECT FROM rota.members m WHERE m.workflow = l.id)
    RETURNING 1
)
SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM gone), id::text FROM looked ORDER BY id DESC LIMIT 1
