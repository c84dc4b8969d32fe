-- name: any_alone
SELECT EXISTS (SELECT FROM rota.jobs WHERE held_by >= 'a:' AND held_by < 'a;' AND state = 'held')

-- name: open_gate
UPDATE rota.gates SET opened_at = rota.clock(:now)
WHERE id = :id AND opened_at IS NULL AND (:sees::text IS NULL OR owner = :sees)

-- name: gate_rows
SELECT {gates.closed g; id = g.id::text; job = g.job::text},
       (SELECT count(*) FROM rota.jobs j WHERE j.state = 'held' AND j.held_by = 'g:' || g.id)
FROM rota.gates g
WHERE g.opened_at IS NULL AND (g.until IS NULL OR g.until > rota.clock(:now)) AND (:sees::text IS NULL OR g.owner = :sees)
ORDER BY g.created_at, g.id

-- name: put_limit
INSERT INTO rota.limits (owner, key, concurrency, starts, span) VALUES (:owner, :key, :concurrency, :starts, :span)
ON CONFLICT (owner, key) DO UPDATE SET concurrency = excluded.concurrency, starts = excluded.starts, span = excluded.span

-- name: stretch_tokens
-- Keeps tokens for as long as the new window looks back.
UPDATE rota.starts SET until = at + late + :span::bigint
WHERE owner = :owner AND key = :key AND until < at + late + :span::bigint

-- name: remove_limit
DELETE FROM rota.limits WHERE owner = :owner AND key = :key

-- name: limit_rows
-- Keys that have bounds set, are held, were used lately or are waited for.
WITH RECURSIVE lines(line) AS (
    -- One index look-up per line, however long the lines are.
    SELECT min(held_by) FROM rota.jobs WHERE state = 'held' AND held_by >= 'k:' AND held_by < 'k;'
    UNION ALL
    SELECT (SELECT min(held_by) FROM rota.jobs WHERE state = 'held' AND held_by > lines.line AND held_by < 'k;')
    FROM lines WHERE lines.line IS NOT NULL
)
SELECT k.owner, k.key, l.key IS NOT NULL, l.concurrency, l.starts, l.span,
       -- The requirements of the first waiter, whose bounds count where no limit was set.
       CASE WHEN l.key IS NULL THEN (
           SELECT j.requirements FROM rota.jobs j WHERE j.state = 'held' AND j.held_by = 'k:' || k.owner || ':' || k.key
           ORDER BY j.rank, j.id LIMIT 1) END
FROM (SELECT owner, key FROM rota.limits UNION SELECT owner, key FROM rota.slots
      UNION SELECT owner, key FROM rota.starts WHERE until > rota.clock(:now)
      UNION SELECT substr(line, 3, strpos(substr(line, 3), ':') - 1), substr(line, strpos(substr(line, 3), ':') + 3)
            FROM lines WHERE line IS NOT NULL) AS k
LEFT JOIN rota.limits l ON l.owner = k.owner AND l.key = k.key
WHERE (:sees::text IS NULL OR k.owner = :sees) AND (:keys::text[] IS NULL OR k.key = ANY (:keys)) AND k.key <> ' running'
ORDER BY k.owner, k.key LIMIT 1000

-- name: line_rows
-- How many jobs wait for each key, and when there will be a token again.
SELECT wanted.owner, wanted.key,
       (SELECT count(*) FROM rota.jobs j WHERE j.state = 'held' AND j.held_by = 'k:' || wanted.owner || ':' || wanted.key),
       (SELECT token.back FROM (SELECT t.at + t.late + wanted.span AS back, row_number() OVER (ORDER BY t.at + t.late DESC) AS place
                                FROM rota.starts t
                                WHERE t.owner = wanted.owner AND t.key = wanted.key AND t.at > rota.clock(:now) - wanted.span - 2000000
                                  AND t.at + t.late + wanted.span > rota.clock(:now)) AS token
        WHERE token.place = wanted.starts)
FROM unnest(:owners::text[], :keys::text[], :starts::integer[], :spans::bigint[]) AS wanted(owner, key, starts, span)

-- name: pause_queue
INSERT INTO rota.queues (name, paused_at, paused_by, note) VALUES (:name, rota.clock(:now), :by, :note)
ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(rota.queues.paused_at, excluded.paused_at), paused_by = excluded.paused_by,
                                 note = excluded.note

-- name: resume_queue
UPDATE rota.queues SET paused_at = NULL, paused_by = NULL, note = '' WHERE name = :name AND paused_at IS NOT NULL

-- name: set_step
INSERT INTO rota.queues (name, step, stepped_at) VALUES (:name, :step, rota.clock(:now))
ON CONFLICT (name) DO UPDATE SET step = excluded.step, stepped_at = excluded.stepped_at

-- name: set_feedback
INSERT INTO rota.queues (name, feedback, quantum, levels, boost, boosted_at)
VALUES (:name, :feedback, :quantum, :levels, :boost, rota.clock(:now))
ON CONFLICT (name) DO UPDATE SET feedback = excluded.feedback, quantum = excluded.quantum, levels = excluded.levels, boost = excluded.boost

-- name: forget_flows
DELETE FROM rota.flows WHERE queue = :name

-- name: feedback_rules
SELECT name, quantum, levels, boost FROM rota.queues WHERE feedback

-- name: charge
-- The rows stay locked until the levels that follow are written.
INSERT INTO rota.flows AS f (queue, flow, used, level)
SELECT c.queue, c.flow, c.used, 0 FROM unnest(:queues::text[], :flows::text[], :used::bigint[]) AS c(queue, flow, used) ORDER BY 1, 2
ON CONFLICT (queue, flow) DO UPDATE SET used = f.used + excluded.used RETURNING queue, flow, used

-- name: set_levels
UPDATE rota.flows AS f SET level = c.level FROM unnest(:queues::text[], :flows::text[], :levels::smallint[]) AS c(queue, flow, level)
WHERE f.queue = c.queue AND f.flow = c.flow

-- name: next_boost
SELECT min(boosted_at + boost) FROM rota.queues WHERE feedback

-- name: flow_rows
SELECT queue, flow, level, used FROM rota.flows
WHERE :sees::text IS NULL OR substr(flow, 1, length(:sees) + 1) = :sees || '/'
ORDER BY queue, level DESC, used DESC, flow LIMIT :limit::integer

-- name: queue_rows
SELECT name, paused_at, paused_by, note, step, feedback, quantum, levels, boost FROM rota.queues ORDER BY name

-- name: reprioritise
UPDATE rota.jobs SET priority = :priority::smallint, rank = rank + (:priority::bigint - priority) * coalesce(own_step, :step::bigint)
WHERE id = ANY (:ids::uuid[])

-- name: closed_gates
SELECT {gates.closed; id = id::text; job = job::text} FROM rota.gates
WHERE opened_at IS NULL AND (until IS NULL OR until > rota.clock(:now)) ORDER BY created_at, id

-- name: look_at_line
INSERT INTO rota.freed (held_by) VALUES (:line) ON CONFLICT DO NOTHING

-- name: limits_of
SELECT key, concurrency, starts, span FROM rota.limits WHERE owner = :owner AND key = ANY (:keys::text[])
