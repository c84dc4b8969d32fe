-- name: claimer
-- The state of the claiming node, and whether there are gates, queue settings, watches or quotas for running jobs.
SELECT state, EXISTS (SELECT 1 FROM gates), EXISTS (SELECT 1 FROM queues),
       EXISTS (SELECT 1 FROM watches WHERE until > :now), EXISTS (SELECT 1 FROM running_quotas)
FROM nodes WHERE incarnation = :incarnation

-- name: left_over
-- Work left for a write before it commits: ended jobs with children, freed keys.
SELECT EXISTS (SELECT 1 FROM settling), EXISTS (SELECT 1 FROM freed)

-- name: candidates
-- The last columns: set if the job has waited for several keys, as jobs that rank behind this value must leave it room;
-- and whether its user has a quota for running jobs.
SELECT j.seq, j.id, j.owner, j.task, j.queue, j.requirements, j.fence, j.rank, j.own_step, j.interruptions,
       iif(j.special, (SELECT min(d.latest) FROM wanted d WHERE d.job = j.id), NULL),
       EXISTS (SELECT 1 FROM running_quotas q WHERE q.owner = j.owner)
FROM json_each(:seqs) wanted JOIN jobs j ON j.seq = wanted.value

-- name: hold_jobs
-- Rows: seq, what holds it, reason. Jobs that were claimed ahead are taken from their node.
UPDATE jobs SET state = 'held', node = NULL, held_by = r.value ->> 1, reason = r.value ->> 2
FROM json_each(:rows) r WHERE jobs.seq = r.value ->> 0

-- name: make_special
-- Jobs that hold or wait for the quota of their user: their moves are seen to like those of jobs with keys.
UPDATE jobs SET special = 1 WHERE seq IN (SELECT value FROM json_each(:seqs)) AND NOT special

-- name: put_away
-- Ends jobs without an attempt. Rows: seq, state, reason.
UPDATE jobs SET state = r.value ->> 1, node = NULL, held_by = NULL, finished_at = :now, reason = r.value ->> 2
FROM json_each(:rows) r WHERE jobs.seq = r.value ->> 0

-- name: insert_gate
INSERT INTO gates (id, owner, task, queue, by_user, label, effect, reason, author, created_at, until)
VALUES (:id, :owner, :task, :queue, :by_user, :label, :effect, :reason, :author, :now, :until)
RETURNING created_at

-- name: opened_gates
SELECT id FROM gates WHERE opened_at IS NOT NULL OR until <= :now ORDER BY created_at, id

-- name: gates_at_work
-- Whether some gate has opened, or its sweep is not at its end.
SELECT EXISTS (SELECT 1 FROM gates WHERE opened_at IS NOT NULL OR until <= :now
                                      OR swept < (SELECT coalesce(max(seq), 0) FROM jobs))

-- name: count_dropped
UPDATE gates SET dropped = dropped + (r.value ->> 1) FROM json_each(:rows) r WHERE gates.id = r.value ->> 0

-- name: sweep_end
SELECT max(seq), count(*) FROM (SELECT seq FROM jobs WHERE seq > :swept ORDER BY seq LIMIT :span)

-- name: sweep
-- Jobs that a gate may concern. Ended jobs are skipped in the order of the table.
SELECT seq, owner, task, queue, requirements FROM jobs
WHERE id IS NOT :but AND seq > :swept AND seq <= :reach
  AND (state = 'ready' OR :drop AND (state = 'blocked' OR state = 'scheduled' OR state = 'held'))
ORDER BY seq LIMIT :limit

-- name: move_sweep
UPDATE gates SET swept = :swept WHERE id = :id

-- name: release_held
-- Releases the jobs that a gate held, lowest rank first.
UPDATE jobs SET state = 'ready', held_by = NULL, reason = NULL
WHERE seq IN (SELECT seq FROM jobs WHERE state = 'held' AND held_by = 'g:' || :id ORDER BY rank, seq LIMIT :limit)

-- name: remove_gate
DELETE FROM gates WHERE id = :id AND NOT EXISTS (SELECT 1 FROM jobs WHERE state = 'held' AND held_by = 'g:' || :id)

-- name: look_at_lines
INSERT OR IGNORE INTO freed SELECT value FROM json_each(:lines)

-- name: looked_at_lines
DELETE FROM freed WHERE held_by IN (SELECT value FROM json_each(:lines))

-- name: all_lines_looked_at
DELETE FROM freed

-- name: any_freed
SELECT EXISTS (SELECT 1 FROM freed)

-- name: freed_lines
-- Lines on the list: how many of their jobs were released and not claimed yet, and the next waiter.
SELECT f.held_by, (SELECT count(*) FROM jobs r WHERE r.state = 'ready' AND r.held_by = f.held_by), j.owner, j.requirements, j.id, j.rank
FROM (SELECT held_by FROM freed ORDER BY held_by LIMIT :limit) f
LEFT JOIN jobs j ON j.seq = (SELECT h.seq FROM jobs h WHERE h.state = 'held' AND h.held_by = f.held_by ORDER BY h.rank, h.seq LIMIT 1)

-- name: all_lines
-- The same for every line; one index look-up per line, however long the lines are.
WITH RECURSIVE known(line) AS (
    SELECT min(held_by) FROM jobs WHERE state = 'held' AND held_by >= 'k:' AND held_by < 'k;'
    UNION ALL
    SELECT (SELECT min(held_by) FROM jobs WHERE state = 'held' AND held_by > known.line AND held_by < 'k;')
    FROM known WHERE known.line IS NOT NULL
)
SELECT known.line, 0, j.owner, j.requirements, j.id, j.rank FROM known
JOIN jobs j ON j.seq = (SELECT h.seq FROM jobs h WHERE h.state = 'held' AND h.held_by = known.line ORDER BY h.rank, h.seq LIMIT 1)
WHERE known.line IS NOT NULL

-- name: first_in_lines
SELECT (SELECT h.seq FROM jobs h WHERE h.state = 'held' AND h.held_by = wanted.value ORDER BY h.rank, h.seq LIMIT 1)
FROM json_each(:lines) wanted

-- name: next_in_line
SELECT seq FROM jobs WHERE state = 'held' AND held_by = :line ORDER BY rank, seq LIMIT :limit

-- name: let_go
UPDATE jobs SET state = 'ready', reason = NULL WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: key_states
-- Rows: owner, key, the window that a job brings along. Returns the limit of the key, its holders, the tokens used in
-- the effective window, how long the latest token is kept, and the best two reservations of jobs that wait for several
-- keys. Only jobs in line reserve: a released job may never be claimed, and the key would lie idle.
SELECT w.owner, w.key, w.was_set, w.concurrency, w.starts, w.set_span, w.span,
       (SELECT json_group_array(s.number) FROM slots s WHERE s.owner = w.owner AND s.key = w.key),
       (SELECT count(*) FROM starts t WHERE t.owner = w.owner AND t.key = w.key
          AND t.at > :now - w.span - :latest AND t.at + t.late + w.span > :now),
       (SELECT t.until - t.at - t.late FROM starts t WHERE t.owner = w.owner AND t.key = w.key ORDER BY t.at DESC LIMIT 1),
       (SELECT json_group_array(json_array(r.latest, r.job)) FROM (
            SELECT d.latest, d.job FROM wanted d JOIN jobs h ON h.id = d.job
            WHERE d.owner = w.owner AND d.key = w.key AND h.state = 'held' AND h.held_by LIKE 'k:%' ORDER BY d.latest LIMIT 2) r)
FROM (SELECT e.value ->> 0 AS owner, e.value ->> 1 AS key, l.key IS NOT NULL AS was_set, l.concurrency, l.starts, l.span AS set_span,
             iif(l.key IS NULL, e.value ->> 2, l.span) AS span
      FROM json_each(:keys) e LEFT JOIN limits l ON l.owner = e.value ->> 0 AND l.key = e.value ->> 1) w

-- name: token_back
-- When the next token comes back; no row if one is free.
SELECT at + late + :span FROM starts
WHERE owner = :owner AND key = :key AND at > :now - :span - :latest AND at + late + :span > :now
ORDER BY at + late DESC LIMIT 1 OFFSET :count - 1

-- name: insert_slot
INSERT INTO slots (owner, key, number, job, fence, since) VALUES (?, ?, ?, ?, ?, ?)

-- name: insert_start
INSERT OR REPLACE INTO starts (owner, key, job, fence, at, late, until) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: insert_wanted
INSERT OR REPLACE INTO wanted (owner, key, job, latest) VALUES (?, ?, ?, ?)

-- name: replace_waiting
-- A newer job takes the place of older ones that wait for the same key ...
UPDATE jobs SET state = 'cancelled', finished_at = :now, held_by = NULL, reason = :why
WHERE seq IN (SELECT seq FROM jobs WHERE state = 'held' AND held_by = :line AND seq < :newer
              UNION ALL SELECT seq FROM jobs WHERE state = 'ready' AND held_by = :line AND seq < :newer)
RETURNING seq

-- name: replace_running
-- ... and the jobs that hold it are asked to stop.
UPDATE jobs SET cancel = coalesce(cancel, :why)
WHERE id IN (SELECT job FROM slots WHERE owner = :owner AND key = :key) AND state = 'running' AND seq < :newer

-- name: holder_rows
SELECT s.owner, s.key, s.job, s.fence, s.since, n.id
FROM json_each(:rows) wanted JOIN slots s ON s.owner = wanted.value ->> 'owners' AND s.key = wanted.value ->> 'keys'
LEFT JOIN jobs j ON j.id = s.job LEFT JOIN nodes n ON n.incarnation = j.node
ORDER BY s.owner, s.key, s.number

-- name: delete_old_starts
DELETE FROM starts WHERE (owner, key, until, job, fence) IN (
    SELECT owner, key, until, job, fence FROM starts WHERE until < :before ORDER BY until LIMIT :limit)

-- name: paused_queues
SELECT name FROM queues WHERE paused_at IS NOT NULL

-- name: queue_states
-- Each state by its own index where there is one, because ended jobs are many.
SELECT queue, 'ready', count(*), min(run_at) FROM jobs WHERE state = 'ready' AND (:sees IS NULL OR owner = :sees) GROUP BY queue
UNION ALL
SELECT queue, 'held', count(*), NULL FROM jobs
WHERE state = 'held' AND held_by IS NOT NULL AND (:sees IS NULL OR owner = :sees) GROUP BY queue
UNION ALL
SELECT queue, 'scheduled', count(*), NULL FROM jobs WHERE state = 'scheduled' AND (:sees IS NULL OR owner = :sees) GROUP BY queue
UNION ALL
SELECT queue, 'running', count(*), NULL FROM jobs WHERE state = 'running' AND (:sees IS NULL OR owner = :sees) GROUP BY queue
UNION ALL
SELECT queue, 'blocked', count(*), NULL FROM jobs WHERE state = 'blocked' AND (:sees IS NULL OR owner = :sees) GROUP BY queue

-- name: queue_endings
SELECT queue, count(*) FROM (
    SELECT queue, owner FROM jobs
    WHERE (state = 'succeeded' OR state = 'cancelled' OR state = 'skipped' OR state = 'dropped') AND finished_at > :now - :lately
    UNION ALL
    SELECT queue, owner FROM jobs WHERE state = 'failed' AND finished_at > :now - :lately)
WHERE :sees IS NULL OR owner = :sees GROUP BY queue

-- name: queue_servers
SELECT s.key, count(*), sum(s.value) FROM nodes n, json_each(iif(json_valid(n.queues), n.queues, '{}')) s
WHERE n.state = 'live' GROUP BY s.key

-- name: waiting_row
SELECT j.owner, j.task, j.queue, j.requirements, j.rank,
       coalesce((SELECT f.level FROM flows f WHERE f.queue = j.queue AND f.flow = j.owner || '/' || j.flow), 0),
       n.id, n.seen_at + n.lease,
       iif(j.state = 'ready', (SELECT count(*) FROM jobs o WHERE o.state = 'ready' AND o.queue = j.queue
                               AND o.owner = j.owner AND (o.rank, o.seq) < (j.rank, j.seq)), 0),
       EXISTS (SELECT 1 FROM nodes w
               WHERE w.state = 'live'
                 AND EXISTS (SELECT 1 FROM json_each(iif(json_valid(w.queues), w.queues, '{}')) q WHERE q.key = j.queue)
                 AND (j.kind <> 'function'
                      OR EXISTS (SELECT 1 FROM json_each(iif(json_valid(w.tasks), w.tasks, '[]')) t WHERE t.value = j.task))),
       j.kind <> 'function' OR EXISTS (SELECT 1 FROM tasks t WHERE t.name = j.task AND t.offered),
       :now
FROM jobs j LEFT JOIN nodes n ON n.incarnation = j.node
WHERE j.id = :id AND j.finished_at IS NULL AND (:sees IS NULL OR j.owner = :sees)

-- name: queue_rules
SELECT name, step, stepped_at, feedback FROM queues

-- name: misplaced
-- The jobs among these with a wrong rank: seq, kind, owner, task, flow, whether the step is wrong, its level, and the
-- level of its flow.
SELECT seq, kind, owner, task, flow, own_step IS NOT :step, level, behind FROM (
    SELECT j.*, coalesce((SELECT f.level FROM flows f WHERE f.queue = j.queue AND f.flow = j.owner || '/' || j.flow), 0) AS behind
    FROM json_each(:seqs) wanted JOIN jobs j ON j.seq = wanted.value)
WHERE own_step IS NOT :step OR behind > level

-- name: rank_those
UPDATE jobs SET rank = rank + priority * (coalesce(:step, :usual) - coalesce(own_step, :usual)), own_step = :step
WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: rank_anew
-- Ranks up to `limit` ready jobs of a queue anew, of the first `reach` (-1: all).
UPDATE jobs SET rank = rank + priority * (coalesce(:step, :usual) - coalesce(own_step, :usual)), own_step = :step
WHERE seq IN (SELECT seq FROM (SELECT seq, own_step FROM jobs WHERE state = 'ready' AND queue = :queue LIMIT :reach)
              WHERE own_step IS NOT :step LIMIT :limit)

-- name: rank_strays
-- Jobs ranked by an earlier step of their queue, wherever they wait.
UPDATE jobs SET rank = rank + priority * (coalesce((SELECT q.step FROM queues q WHERE q.name = jobs.queue), :usual) - own_step),
                own_step = (SELECT q.step FROM queues q WHERE q.name = jobs.queue)
WHERE seq IN (
    SELECT j.seq FROM queues q CROSS JOIN jobs j ON j.queue = q.name AND j.own_step < coalesce(q.step, 1 << 62)
    WHERE (j.level > 0 OR j.own_step IS NOT NULL) AND j.finished_at IS NULL AND j.node IS NULL
    UNION ALL
    SELECT j.seq FROM queues q CROSS JOIN jobs j ON j.queue = q.name AND j.own_step > q.step
    WHERE (j.level > 0 OR j.own_step IS NOT NULL) AND j.finished_at IS NULL AND j.node IS NULL
    LIMIT :limit)

-- name: any_strays
SELECT EXISTS (
    SELECT 1 FROM queues q CROSS JOIN jobs j ON j.queue = q.name AND j.own_step < coalesce(q.step, 1 << 62)
    WHERE (j.level > 0 OR j.own_step IS NOT NULL) AND j.finished_at IS NULL AND j.node IS NULL
    UNION ALL
    SELECT 1 FROM queues q CROSS JOIN jobs j ON j.queue = q.name AND j.own_step > q.step
    WHERE (j.level > 0 OR j.own_step IS NOT NULL) AND j.finished_at IS NULL AND j.node IS NULL)

-- name: put_back
UPDATE jobs SET rank = rank + (:level - level) * :step, level = :level
WHERE seq IN (SELECT seq FROM jobs
              WHERE state = 'ready' AND queue = :queue AND kind = :kind AND owner = :owner AND task = :task AND flow = :flow AND level < :level
              ORDER BY rank LIMIT :limit)

-- name: put_back_functions
UPDATE jobs SET rank = rank + (:level - level) * :step, level = :level
WHERE seq IN (SELECT seq FROM jobs
              WHERE state = 'ready' AND kind = 'function' AND queue = :queue AND task = :task AND owner = :owner AND flow = :flow AND level < :level
              ORDER BY rank LIMIT :limit)

-- name: put_forward
-- Jobs with a higher level than their flow has now.
UPDATE jobs SET rank = rank - level * :step, level = 0
WHERE seq IN (SELECT j.seq FROM jobs j
              WHERE (j.level > 0 OR j.own_step IS NOT NULL) AND j.level > 0 AND j.finished_at IS NULL AND j.node IS NULL
                AND NOT EXISTS (SELECT 1 FROM flows f WHERE f.queue = j.queue AND f.flow = j.owner || '/' || j.flow AND f.level >= j.level)
              LIMIT :limit)

-- name: any_to_put_forward
SELECT EXISTS (SELECT 1 FROM queues WHERE feedback AND boosted_at + boost <= :now OR step < :usual OR stepped_at > :now - :changing)
    OR EXISTS (SELECT 1 FROM jobs j WHERE (j.level > 0 OR j.own_step IS NOT NULL) AND j.level > 0 AND j.finished_at IS NULL AND j.node IS NULL
               AND NOT EXISTS (SELECT 1 FROM flows f WHERE f.queue = j.queue AND f.flow = j.owner || '/' || j.flow AND f.level >= j.level))

-- name: queues_to_boost
SELECT name FROM queues WHERE feedback AND boosted_at + boost <= :now

-- name: boosted
UPDATE queues SET boosted_at = :now WHERE name = :name

-- name: insert_alone_gate
INSERT INTO gates (id, owner, task, queue, by_user, label, effect, reason, author, created_at, job)
VALUES (:id, :owner, :task, :queue, :by_user, :label, 'pause', :reason, :owner, :now, :job)

-- name: open_alone_gate
UPDATE gates SET opened_at = :now WHERE job = :job AND opened_at IS NULL

-- name: running_jobs
SELECT id, owner, task, queue, requirements FROM jobs WHERE state = 'running'

-- name: alone_jobs
-- Jobs that wait until they are alone, and since when.
SELECT j.id, j.requirements, (SELECT min(g.created_at) FROM gates g WHERE g.job = j.id AND g.opened_at IS NULL)
FROM jobs j WHERE j.held_by >= 'a:' AND j.held_by < 'a;' AND j.state = 'held' ORDER BY j.rank, j.seq LIMIT 1000

-- name: any_in_line
SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'held' AND held_by >= 'k:' AND held_by < 'k;')

-- name: let_alone_go
UPDATE jobs SET state = 'ready', held_by = NULL, reason = NULL WHERE id = :id AND state = 'held'

-- name: yield_alone
UPDATE jobs SET state = 'scheduled', held_by = NULL, run_at = :at, reason = :reason
WHERE id = :id AND state = 'held'

-- name: cancel_for
UPDATE jobs SET cancel = :why WHERE id = :id AND state = 'running' AND cancel IS NULL

-- name: hold_edit
-- Writers are one at a time here.
SELECT :what || :owner || :name

-- name: hold_admission
-- There is one writer.
SELECT 1

-- name: any_unadopted
-- Whether jobs run that hold no slot of their user's quota: they were claimed before it was set.
SELECT EXISTS (SELECT 1 FROM running_quotas) AND EXISTS (
    SELECT 1 FROM jobs j INDEXED BY jobs_running JOIN running_quotas q ON q.owner = j.owner
    WHERE j.state = 'running' AND NOT EXISTS (SELECT 1 FROM slots s WHERE s.job = j.id AND s.key = q.key))

-- name: mark_unadopted
-- Their end frees the slot, so they need the mark first.
UPDATE jobs SET special = 1 WHERE seq IN (
    SELECT j.seq FROM jobs j INDEXED BY jobs_running JOIN running_quotas q ON q.owner = j.owner
    WHERE j.state = 'running' AND NOT EXISTS (SELECT 1 FROM slots s WHERE s.job = j.id AND s.key = q.key))
RETURNING id

-- name: adopt_running
INSERT INTO slots (owner, key, number, job, fence, since)
SELECT j.owner, q.key, coalesce((SELECT max(s.number) FROM slots s WHERE s.owner = j.owner AND s.key = q.key), 0)
       + row_number() OVER (PARTITION BY j.owner ORDER BY j.id), j.id, j.fence, :now
FROM json_each(:ids) wanted JOIN jobs j ON j.id = wanted.value JOIN running_quotas q ON q.owner = j.owner
