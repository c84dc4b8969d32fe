-- name: jobs_of_owner
-- The existing jobs of the owner among these.
SELECT j.id FROM json_each(:ids) wanted JOIN jobs j ON j.id = wanted.value WHERE j.owner = :owner

-- name: workflow_owner
SELECT owner FROM workflows WHERE id = :id

-- name: insert_edge
INSERT OR IGNORE INTO edges (child, parent, need, fills) VALUES (?, ?, ?, ?)

-- name: insert_workflow
INSERT OR IGNORE INTO workflows (id, owner, name, created_at) VALUES (:id, :owner, :name, :now)

-- name: insert_member
INSERT OR IGNORE INTO members (workflow, job, place, name) VALUES (?, ?, ?, ?)

-- name: count_parents
-- The job waits for all of its parents.
UPDATE jobs SET parents = (SELECT count(*) FROM edges e WHERE e.child = jobs.id), 
                waits = (SELECT count(*) FROM edges e WHERE e.child = jobs.id AND e.state = 'open')
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: tie
UPDATE jobs SET tied = 1 WHERE id IN (SELECT value FROM json_each(:ids)) AND NOT tied

-- name: look_after
INSERT OR IGNORE INTO settling SELECT value FROM json_each(:ids)

-- name: any_settling
SELECT EXISTS (SELECT 1 FROM settling)

-- name: unsettled_of
SELECT s.job FROM json_each(:ids) wanted JOIN settling s ON s.job = wanted.value

-- name: settling
SELECT s.job, j.state, j.skip_cause FROM settling s LEFT JOIN jobs j ON j.id = s.job LIMIT 200

-- name: looked_after
DELETE FROM settling WHERE job IN (SELECT value FROM json_each(:ids))

-- name: open_edges
SELECT e.child, e.parent, e.need FROM json_each(:ids) ended JOIN edges e ON e.parent = ended.value
WHERE e.state = 'open' LIMIT :limit

-- name: mark_edges
UPDATE edges SET state = r.value ->> 2 FROM json_each(:rows) r WHERE edges.child = r.value ->> 0 AND edges.parent = r.value ->> 1

-- name: children
SELECT j.seq, j.id, j.state, j.waits, j.run_at, j.priority, j.rank FROM json_each(:ids) wanted JOIN jobs j ON j.id = wanted.value

-- name: move_children
-- Rows: seq, state, number of open parents, due time, rank.
UPDATE jobs SET state = r.value ->> 1, waits = r.value ->> 2, run_at = r.value ->> 3, rank = r.value ->> 4
FROM json_each(:rows) r WHERE jobs.seq = r.value ->> 0

-- name: skip_jobs
-- Rows: child, reason, cause.
UPDATE jobs SET state = 'skipped', finished_at = :now, reason = r.value ->> 1, skip_cause = r.value ->> 2
FROM json_each(:rows) r WHERE jobs.id = r.value ->> 0 AND state = 'blocked'

-- name: broken_edges
SELECT e.child, e.parent, e.need, coalesce(nullif(m.name, ''), j.task), j.state, j.skip_cause
FROM json_each(:ids) wanted JOIN jobs c ON c.id = wanted.value JOIN edges e ON e.child = c.id LEFT JOIN jobs j ON j.id = e.parent
LEFT JOIN members m ON m.job = e.parent
WHERE c.state = 'blocked' AND e.state = 'broken' ORDER BY e.child, e.parent

-- name: edge_marks
-- The different pairs of need and state among the edges of these children: few, also with thousands of parents.
SELECT DISTINCT e.child, e.need, e.state FROM json_each(:ids) wanted JOIN edges e ON e.child = wanted.value

-- name: anyone_waits
SELECT EXISTS (SELECT 1 FROM edges WHERE state = 'open')

-- name: skipped_below
-- Jobs that were skipped because of these, directly or not; an edge that is clear was one of several causes.
WITH RECURSIVE below(id) AS (
    SELECT j.id FROM json_each(:ids) ended JOIN edges e ON e.parent = ended.value JOIN jobs j ON j.id = e.child
    WHERE (e.state = 'broken' OR e.state = 'clear') AND j.state = 'skipped'
    UNION
    SELECT j.id FROM below JOIN edges e ON e.parent = below.id JOIN jobs j ON j.id = e.child
    WHERE (e.state = 'broken' OR e.state = 'clear') AND j.state = 'skipped'
)
SELECT id FROM below

-- name: reopen_edges
-- An edge that was met stays met if its parent was purged: a dead letter is kept for longer than its parents.
UPDATE edges SET state = 'open' WHERE child IN (SELECT value FROM json_each(:ids))
  AND (state <> 'met' OR EXISTS (SELECT 1 FROM jobs j WHERE j.id = edges.parent))

-- name: parents_of
SELECT DISTINCT e.parent FROM json_each(:ids) wanted JOIN edges e ON e.child = wanted.value

-- name: reopen_jobs
-- The budget of attempts starts again; fence and tries go on rising, so that a write of an old attempt stays stale.
UPDATE jobs SET state = iif(EXISTS (SELECT 1 FROM edges e WHERE e.child = jobs.id AND e.state = 'open'), 'blocked', 'scheduled'),
                run_at = :now, rank = :now + priority * :step, finished_at = NULL, expires_at = NULL,
                failures = 0, crashes = 0, interruptions = 0, reason = NULL, skip_cause = NULL, error_group = NULL, held_by = NULL, level = 0,
                own_step = NULL,
                replays = replays + (id IN (SELECT value FROM json_each(:replayed)))
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: parent_rows
SELECT e.parent, j.task, j.state, e.need, e.state,
       (SELECT a.result FROM attempts a WHERE a.job = j.seq AND j.state = 'succeeded' ORDER BY a.fence DESC LIMIT 1),
       m.name, e.fills
FROM edges e LEFT JOIN jobs j ON j.id = e.parent LEFT JOIN members m ON m.job = e.parent
WHERE e.child = :id ORDER BY e.parent

-- name: owns_job
SELECT EXISTS (SELECT 1 FROM jobs WHERE id = :id AND (:sees IS NULL OR owner = :sees))

-- name: workflow_rows
SELECT id, owner, name, created_at FROM workflows
WHERE (:sees IS NULL OR owner = :sees) AND (:name IS NULL OR name = :name)
  AND (:ids IS NULL OR id IN (SELECT value FROM json_each(:ids)))
  AND (:after_id IS NULL OR (created_at, id) < (:after_at, :after_id))
ORDER BY created_at DESC, id DESC LIMIT :limit

-- name: workflow_counts
SELECT m.workflow, j.state, j.skip_cause, count(*) FROM json_each(:ids) wanted
JOIN members m ON m.workflow = wanted.value JOIN jobs j ON j.id = m.job GROUP BY 1, 2, 3

-- name: workflow_jobs
SELECT j.id, j.task, j.state, j.reason, j.started_at, j.finished_at, m.name,
       CASE WHEN length(p.args) <= 1000 AND instr(p.spec, '"secrets"') = 0 THEN p.args END
FROM members m JOIN jobs j ON j.id = m.job LEFT JOIN payloads p ON p.seq = j.seq
WHERE m.workflow = :id ORDER BY m.place, m.job

-- name: workflow_edges
SELECT e.child, e.parent, e.need, e.fills FROM members m JOIN edges e ON e.child = m.job
WHERE m.workflow = :id ORDER BY m.place, m.job, e.parent

-- name: workflows_of_jobs
SELECT m.job, m.workflow, m.name FROM json_each(:ids) wanted JOIN members m ON m.job = wanted.value

-- name: resolve_workflow
SELECT id FROM workflows
WHERE (:sees IS NULL OR owner = :sees)
  AND (substr(id, 1, length(:part)) = :part OR substr(id, -length(:part)) = :part OR name = :part)
ORDER BY created_at DESC LIMIT 3

-- name: delete_edges
DELETE FROM edges WHERE child IN (SELECT id FROM jobs WHERE seq IN (SELECT value FROM json_each(:seqs)))

-- name: delete_members
DELETE FROM members WHERE job IN (SELECT id FROM jobs WHERE seq IN (SELECT value FROM json_each(:seqs)))

-- name: workflows_after
-- A piece of a walk through all workflows, and which of them may be deleted: all their members are gone.
SELECT f.id, f.created_at < :before AND NOT EXISTS (SELECT 1 FROM members m WHERE m.workflow = f.id)
FROM workflows f WHERE f.id > :after ORDER BY f.id LIMIT :most

-- name: delete_workflows
DELETE FROM workflows WHERE id IN (SELECT value FROM json_each(:ids))
