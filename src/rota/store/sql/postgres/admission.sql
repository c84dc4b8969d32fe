-- name: hand_on
SELECT moved, next_at, more FROM rota.hand_on(:every, :now, :most::integer)

-- name: sweep_gates
SELECT moved, next_at, more FROM rota.sweep_gates(:now, :most::integer)

-- name: gated_front
WITH gates AS MATERIALIZED (
    SELECT g AS gate FROM rota.gates g WHERE g.opened_at IS NULL AND (g.until IS NULL OR g.until > rota.clock(:now))
)
SELECT head.id::text FROM rota.nodes n, unnest(:queues::text[]) AS q(queue), unnest(:kinds::text[]) AS k(kind)
CROSS JOIN LATERAL rota.front(q.queue, k.kind, n.tasks, :most::integer, rota.clock(:now)) front
JOIN rota.jobs head ON head.id = front.id
WHERE EXISTS (SELECT FROM gates g WHERE (g.gate).job IS DISTINCT FROM head.id
              AND rota.fits(g.gate, head.owner, head.task, head.queue, head.requirements))
  AND n.incarnation = :incarnation AND head.state = 'ready'

-- name: hold_full_front
-- Jobs at the front that need a full key join its line together. Needs no lock: a job in line only waits, and every
-- later look at the line releases jobs if there is room.
WITH front AS MATERIALIZED (
    SELECT j.id FROM rota.nodes n, unnest(:queues::text[]) AS q(queue), unnest(:kinds::text[]) AS k(kind)
    CROSS JOIN LATERAL rota.front(q.queue, k.kind, n.tasks, :most::integer, rota.clock(:now)) head
    JOIN rota.jobs j ON j.id = head.id
    WHERE n.incarnation = :incarnation AND j.state = 'ready' AND NOT coalesce(j.requirements::jsonb ? 'alone', false)
      AND (j.special OR EXISTS (SELECT FROM rota.running_quotas q WHERE q.owner = j.owner))
    ORDER BY j.id FOR UPDATE OF j SKIP LOCKED
), full_ones AS MATERIALIZED (
    SELECT DISTINCT ON (n.job) n.job, n.owner, n.key, n.policy
    FROM rota.needs(ARRAY(SELECT id FROM front), rota.clock(:now)) n WHERE n.room <= 0
    ORDER BY n.job, n.key = ' running', n.key COLLATE "C"
)
UPDATE rota.jobs j SET state = 'held', held_by = 'k:' || f.owner || ':' || f.key, reason = rota.waits_for(f.key), special = true
FROM full_ones f WHERE j.id = f.job AND f.policy = 'wait'

-- name: alone_jobs
-- Jobs that wait until they are alone, and the gates that they have closed for themselves.
SELECT j.id::text, j.requirements, g.id::text AS gate, g.created_at AS since, g.claims = '{}' AS proved, rota.clock(:now) AS now
FROM rota.jobs j LEFT JOIN rota.gates g ON g.job = j.id AND g.opened_at IS NULL
WHERE j.held_by >= 'a:' AND j.held_by < 'a;' AND j.state = 'held' ORDER BY j.rank, j.id LIMIT 1000 FOR UPDATE OF j SKIP LOCKED

-- name: note_claims
-- The claims that have read the gates before these were committed, and have not ended. (Asked after the gates were seen.)
UPDATE rota.gates g SET claims = ARRAY(SELECT unnest(coalesce(g.claims, u.claims)) INTERSECT SELECT unnest(u.claims))
FROM (SELECT rota.claims_under_way() AS claims OFFSET 0) u WHERE g.id = ANY (:ids::uuid[])

-- name: alone_of
SELECT w.id::text, rota.is_alone(w.id) FROM unnest(:ids::uuid[]) AS w(id)

-- name: let_alone_go
UPDATE rota.jobs SET state = 'ready', held_by = NULL, reason = NULL WHERE id = ANY (:ids::uuid[])

-- name: yield_alone
WITH opened AS (
    UPDATE rota.gates SET opened_at = :now::bigint WHERE job = :id::uuid AND opened_at IS NULL
)
UPDATE rota.jobs SET state = 'scheduled', held_by = NULL, run_at = :at::bigint, reason = :reason WHERE id = :id::uuid

-- name: cancel_beside
UPDATE rota.jobs j SET cancel = g.reason
FROM rota.gates g WHERE g.id = :gate::uuid AND j.node IS NOT NULL AND j.cancel IS NULL AND j.id <> g.job
  AND rota.fits(g, j.owner, j.task, j.queue, j.requirements)

-- name: insert_gate
INSERT INTO rota.gates (id, owner, task, task_like, queue, by_user, label, effect, reason, author, created_at, until)
VALUES (:id, :owner, :task, :task_like, :queue, :by_user, :label, :effect, :reason, :author, rota.clock(:now), :until)
RETURNING created_at

-- name: holder_rows
SELECT s.owner, s.key, s.job::text, s.fence, s.since, n.id
FROM unnest(:owners::text[], :keys::text[]) AS wanted(owner, key)
CROSS JOIN LATERAL (SELECT * FROM rota.slots WHERE owner = wanted.owner AND key = wanted.key OFFSET 0) AS s
LEFT JOIN LATERAL (SELECT node FROM rota.jobs WHERE id = s.job OFFSET 0) AS j ON true
LEFT JOIN rota.nodes n ON n.incarnation = j.node
ORDER BY s.owner, s.key, s.number

-- name: put_back
SELECT rota.put_back(:ids::uuid[], :step, :most::integer)

-- name: rank_those
-- Ranks jobs anew that were ranked by another step than their queue has now.
UPDATE rota.jobs j SET rank = j.rank + j.priority * (coalesce(wrong.step, :step::bigint) - coalesce(j.own_step, :step::bigint)),
                       own_step = wrong.step
FROM (SELECT r.id, q.step FROM rota.jobs r LEFT JOIN rota.queues q ON q.name = r.queue
      WHERE r.id = ANY (:ids::uuid[]) AND r.state = 'ready' AND r.own_step IS DISTINCT FROM q.step
      ORDER BY r.id FOR UPDATE OF r SKIP LOCKED) wrong
WHERE j.id = wrong.id

-- name: rank_anew
SELECT rota.rank_anew(:names::text[], :step, :most::integer, :reach::integer)

-- name: stepped_queues
-- Queues in which jobs far back may have to move forward: a claim sees only the front.
SELECT name FROM rota.queues WHERE step < :step OR stepped_at > rota.clock(:now) - 10000000

-- name: rank_strays
-- Jobs that were ranked by another step than their queue has now, however long ago: behind a gate, in line for a key,
-- or so far back that no claim reads them.
WITH wrong AS MATERIALIZED (
    SELECT one.id, q.step FROM rota.queues q
    CROSS JOIN LATERAL (VALUES (-1::bigint, coalesce(q.step - 1, 9223372036854775807)), (q.step + 1, 9223372036854775807)) AS span(low, high)
    CROSS JOIN LATERAL (SELECT j.id FROM rota.jobs j WHERE j.queue = q.name AND j.own_step BETWEEN span.low AND span.high
                          AND j.node IS NULL LIMIT :most::integer FOR UPDATE SKIP LOCKED) one
)
UPDATE rota.jobs j SET rank = j.rank + j.priority * (coalesce(wrong.step, :step::bigint) - j.own_step), own_step = wrong.step
FROM wrong WHERE j.id = wrong.id

-- name: queues_of
-- The queues of jobs that were ranked by another step than their queue has now.
SELECT DISTINCT j.queue FROM rota.jobs j LEFT JOIN rota.queues q ON q.name = j.queue
WHERE j.id = ANY (:ids::uuid[]) AND j.own_step IS DISTINCT FROM q.step

-- name: boost
-- All flows of a queue start again, when its time has come or its feedback was switched off.
WITH due AS MATERIALIZED (
    SELECT q.name FROM rota.queues q WHERE q.boosted_at + q.boost <= rota.clock(:now)
       AND (q.feedback OR EXISTS (SELECT FROM rota.flows f WHERE f.queue = q.name)) ORDER BY q.name FOR UPDATE SKIP LOCKED
), lifted AS (
    DELETE FROM rota.flows f USING due WHERE f.queue = due.name
)
UPDATE rota.queues q SET boosted_at = rota.clock(:now) FROM due WHERE q.name = due.name

-- name: put_forward
-- Jobs with a higher level than their flow has now.
WITH RECURSIVE known AS (
    -- One index look-up per flow, however many jobs of it were put back.
    (SELECT j.queue, j.owner, rota.flow_of(j.task, j.requirements) AS flow, j.level FROM rota.jobs j WHERE j.level > 0
     ORDER BY j.queue, j.owner, rota.flow_of(j.task, j.requirements), j.level LIMIT 1)
    UNION ALL
    SELECT next.* FROM known CROSS JOIN LATERAL (
        SELECT j.queue, j.owner, rota.flow_of(j.task, j.requirements), j.level FROM rota.jobs j
        WHERE j.level > 0
          AND (j.queue, j.owner, rota.flow_of(j.task, j.requirements), j.level) > (known.queue, known.owner, known.flow, known.level)
        ORDER BY j.queue, j.owner, rota.flow_of(j.task, j.requirements), j.level LIMIT 1) AS next
), behind AS MATERIALIZED (
    SELECT one.id FROM known CROSS JOIN LATERAL (
        SELECT j.id FROM rota.jobs j WHERE j.level > 0 AND j.queue = known.queue AND j.owner = known.owner
          AND rota.flow_of(j.task, j.requirements) = known.flow AND j.level = known.level
          AND j.node IS NULL LIMIT :most::integer FOR UPDATE SKIP LOCKED) AS one
    WHERE NOT EXISTS (SELECT FROM rota.flows f
                      WHERE f.queue = known.queue AND f.flow = known.owner || '/' || known.flow AND f.level >= known.level)
    LIMIT :most::integer
)
UPDATE rota.jobs j SET rank = j.rank - j.level * :step::bigint, level = 0 FROM behind WHERE j.id = behind.id

-- name: queue_states
SELECT queue, state, count(*), min(run_at) FROM rota.jobs WHERE (:sees::text IS NULL OR owner = :sees) GROUP BY queue, state

-- name: queue_endings
SELECT queue, count(*) FROM rota.history
WHERE finished_at > rota.clock(:now) - :lately::bigint AND (:sees::text IS NULL OR owner = :sees) GROUP BY queue

-- name: queue_servers
SELECT s.name, count(*), sum(s.slots::integer) FROM rota.nodes n, jsonb_each_text(n.queues::jsonb) AS s(name, slots)
WHERE n.state = 'live' GROUP BY s.name

-- name: waiting_row
SELECT j.owner, j.task, j.queue, j.requirements, j.rank,
       coalesce((SELECT f.level FROM rota.flows f
                 WHERE f.queue = j.queue AND f.flow = j.owner || '/' || rota.flow_of(j.task, j.requirements)), 0),
       n.id, n.seen_at + n.lease,
       CASE WHEN j.state = 'ready' THEN (SELECT count(*) FROM rota.jobs o WHERE o.state = 'ready' AND o.queue = j.queue
                                         AND o.owner = j.owner AND (o.rank, o.id) < (j.rank, j.id)) ELSE 0 END,
       EXISTS (SELECT FROM rota.nodes w WHERE w.state = 'live' AND w.queues::jsonb ? j.queue
               AND (j.kind <> 'function' OR j.task = ANY (w.tasks))),
       j.kind <> 'function' OR EXISTS (SELECT FROM rota.tasks t WHERE t.name = j.task AND t.offered),
       rota.clock(:now)
FROM rota.jobs j LEFT JOIN rota.nodes n ON n.incarnation = j.node
WHERE j.id = :id AND (:sees::text IS NULL OR j.owner = :sees)

-- name: delete_old_starts
DELETE FROM rota.starts WHERE ctid IN (
    SELECT ctid FROM rota.starts WHERE until < rota.clock(:now) ORDER BY until LIMIT :limit)

-- name: hold_edit
-- One edit of a thing at a time, also while it is not there.
SELECT pg_advisory_xact_lock(hashtextextended(:what::text || ' ' || :owner::text || ' ' || :name::text, 7))

-- name: hold_admission
-- As claims do that admit jobs with keys: counts and numbers of slots are exact until the transaction ends.
SELECT pg_advisory_xact_lock(hashtextextended('rota' || ' admission', 0))

-- name: any_unadopted
-- Whether jobs run that hold no slot of their user's quota: claims that began before the quota was set have taken them.
SELECT EXISTS (SELECT FROM rota.running_quotas) AND EXISTS (
    SELECT FROM rota.nodes n CROSS JOIN LATERAL (SELECT id, owner FROM rota.jobs WHERE node = n.incarnation OFFSET 0) j
    JOIN rota.running_quotas q ON q.owner = j.owner
    WHERE n.state IN ('live', 'stopping') AND NOT EXISTS (SELECT FROM rota.slots s WHERE s.job = j.id AND s.key = q.key))

-- name: mark_unadopted
-- Their end frees the slot, so they need the mark first. Rows locked by others are left for the next time.
UPDATE rota.jobs m SET special = true FROM (
    SELECT j.id FROM rota.running_quotas q, rota.nodes n, rota.jobs j
    WHERE n.state IN ('live', 'stopping') AND j.node = n.incarnation AND j.owner = q.owner
      AND NOT EXISTS (SELECT FROM rota.slots s WHERE s.job = j.id AND s.key = q.key)
    ORDER BY j.id FOR UPDATE OF j SKIP LOCKED) found
WHERE m.id = found.id RETURNING m.id::text

-- name: adopt_running
INSERT INTO rota.slots (owner, key, number, job, fence, since)
SELECT j.owner, q.key, coalesce((SELECT max(s.number) FROM rota.slots s WHERE s.owner = j.owner AND s.key = q.key), 0)
       + row_number() OVER (PARTITION BY j.owner ORDER BY j.id), j.id, j.fence, rota.clock(:now)
FROM rota.jobs j JOIN rota.running_quotas q ON q.owner = j.owner WHERE j.id = ANY (:ids::uuid[])
