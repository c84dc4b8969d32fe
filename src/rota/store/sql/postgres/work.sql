-- name: claim
-- Reads the heads of all lanes (a queue and a kind) from the index, skipping rows that others have locked, and takes
-- the best of each queue. Expired jobs are left to the promoter. Of jobs that a gate fits or that need keys, only the
-- ids are returned: `admit_claim` decides on these.
--
-- A node runs only functions that it offers. Mostly the functions at the front are offered, so `near` reads the front
-- in the order of rank, up to the `edge`. If that does not bring enough, `far` reads behind the edge task by task, from
-- an index by task, so functions of other apps are not read.
WITH me AS MATERIALIZED (
    -- KEY SHARE allows renewals; a take-over of this node waits until the claim has ended, and sees the claimed jobs.
    SELECT tasks FROM rota.nodes WHERE incarnation = :incarnation AND state IN ('live', 'stopping') FOR KEY SHARE
), own AS MATERIALIZED (
    SELECT unnest(tasks) AS task FROM me
), moment AS MATERIALIZED (
    SELECT rota.clock(:now) AS now, clock_timestamp() AS began FROM me
), gates AS MATERIALIZED (
    SELECT g AS gate FROM rota.closed_gates(:now) g
), lanes AS MATERIALIZED (
    SELECT lane.*, q.step, coalesce(q.feedback, false) AS feedback, edge.rank AS edge, edge.id AS edge_id
    FROM me, unnest(:queues::text[], :kinds::text[], :wants::integer[], :starts::integer[], :floors::bigint[], :floor_ids::uuid[])
                 AS lane(queue, kind, want, start, floor, floor_id)
    LEFT JOIN rota.queues q ON q.name = lane.queue
    LEFT JOIN LATERAL (
        SELECT j.rank, j.id FROM rota.jobs j
        WHERE lane.kind = 'function' AND j.state = 'ready' AND j.queue = lane.queue AND j.kind = lane.kind
          AND (j.rank, j.id) >= (lane.floor, lane.floor_id)
        ORDER BY j.rank, j.id OFFSET lane.want + :reach::integer LIMIT 1
    ) AS edge ON true
    WHERE q.paused_at IS NULL
), near AS MATERIALIZED (
    SELECT lane.queue, lane.kind, lane.want, lane.start, lane.step, lane.feedback, head.*
    FROM moment, lanes lane CROSS JOIN LATERAL (
        SELECT j.ctid AS place, j.rank, j.id, j.special, j.owner, j.task, j.requirements, j.level, j.own_step FROM rota.jobs j
        WHERE j.state = 'ready' AND j.queue = lane.queue AND j.kind = lane.kind AND (j.rank, j.id) >= (lane.floor, lane.floor_id)
          AND (j.rank, j.id) <= (coalesce(lane.edge, 9223372036854775807), coalesce(lane.edge_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
          AND (j.expires_at IS NULL OR j.expires_at > moment.now) AND (j.kind <> 'function' OR j.task IN (SELECT task FROM own))
        ORDER BY j.rank, j.id LIMIT lane.want FOR UPDATE OF j SKIP LOCKED
    ) AS head
), far AS MATERIALIZED (
    SELECT lane.queue, lane.kind, lane.want, lane.start, lane.step, lane.feedback, head.*
    FROM me, moment, lanes lane CROSS JOIN LATERAL (
        SELECT lane.want - (SELECT count(*) FROM near WHERE near.queue = lane.queue AND near.kind = lane.kind) AS most
    ) AS lack CROSS JOIN LATERAL rota.ready_of_tasks(lane.queue, me.tasks, lane.edge, lane.edge_id, lack.most, moment.now) AS head
    WHERE lane.edge IS NOT NULL AND lack.most > 0
), heads AS MATERIALIZED (
    SELECT head.*, head.special
           OR (SELECT EXISTS (SELECT FROM rota.running_quotas)) AND EXISTS (SELECT FROM rota.running_quotas q WHERE q.owner = head.owner)
           OR EXISTS (SELECT FROM gates WHERE rota.fits(gate, head.owner, head.task, head.queue, head.requirements)) AS stopped,
           head.own_step IS DISTINCT FROM head.step
           OR head.feedback AND EXISTS (SELECT FROM rota.flows f WHERE f.queue = head.queue AND f.flow = head.owner || '/' || rota.flow_of(head.task, head.requirements)
                                        AND f.level > head.level) AS fallen
    FROM (SELECT * FROM near UNION ALL SELECT * FROM far) AS head
), chosen AS MATERIALIZED (
    SELECT place, id, stopped, fallen, number <= start AS starts FROM (
        SELECT place, id, stopped, coalesce(fallen, false) AS fallen, want, start,
               row_number() OVER (PARTITION BY queue ORDER BY rank, id) AS number FROM heads
    ) AS line WHERE number <= want
), claimed AS (
-- The fence rises with the claim; an attempt is counted only when it is started.
UPDATE rota.jobs j
SET state = 'running', fence = fence + 1, node = :incarnation, cancel = NULL, reason = NULL, claimed_at = moment.now,
    started_at = CASE WHEN starts THEN moment.now END, tries = tries + starts::integer,
    expires_at = CASE WHEN starts THEN NULL ELSE expires_at END   -- a started job can't expire
FROM chosen, moment WHERE j.ctid = chosen.place AND NOT chosen.stopped AND NOT chosen.fallen
-- A first attempt finds no checkpoint, and does not look for one.
RETURNING {jobs.claimed j; job_id = j.id::text AS job_id; number = j.tries + (NOT starts)::integer AS number; slack = NULL::bigint;
           flow = rota.flow_of(j.task, j.requirements);
           state = CASE WHEN j.fence > 1 THEN rota.saved_state(j.id) END}
), told AS (   -- if somebody watches
    INSERT INTO rota.outbox (at, kind, owner, subject, data)
    SELECT moment.now, 'job.started', c.owner, '',
           json_build_object('queue', c.queue, 'task', c.task, 'attempt', c.number, 'node', n.id, 'jobs', json_agg(c.job_id))::text
    FROM claimed c, moment, rota.nodes n
    WHERE EXISTS (SELECT FROM rota.watches w, moment WHERE w.until > moment.now) AND c.started_at IS NOT NULL AND n.incarnation = :incarnation
      AND c.owner IN (SELECT w.owner FROM rota.watches w WHERE w.until > (SELECT now FROM moment))
    GROUP BY moment.now, c.owner, c.queue, c.task, c.number, n.id
)
SELECT * FROM claimed
UNION ALL   -- a fence of 0: the rank is wrong
SELECT {jobs.claimed; job_id = id::text; fence = CASE WHEN fallen THEN 0 END; * = NULL}
FROM chosen WHERE fallen OR stopped AND starts
UNION ALL   -- the microseconds of the server's time that it took
SELECT {jobs.claimed; fence = (extract(epoch FROM clock_timestamp() - began) * 1000000)::bigint; * = NULL} FROM moment

-- name: admit_claim
SELECT * FROM rota.admit_claim(:ids::uuid[], :incarnation, :now, :only_gates, :step)

-- name: start_states
SELECT wanted.place - 1, j.id::text, j.started_at,
       CASE WHEN j.expires_at <= rota.clock(:now) THEN coalesce(j.cancel, 'expired') ELSE j.cancel END, q.paused_at IS NOT NULL
FROM unnest(:ids::uuid[], :fences::bigint[]) WITH ORDINALITY AS wanted(id, fence, place)
JOIN rota.jobs j ON j.id = wanted.id AND j.fence = wanted.fence
LEFT JOIN rota.queues q ON q.name = j.queue
WHERE j.state = 'running' ORDER BY j.id FOR UPDATE OF j

-- name: hold_gated
-- Jobs that a gate fits go back: the gate holds them, or the next claim drops them.
UPDATE rota.jobs j SET state = CASE WHEN hit.effect = 'pause' THEN 'held' ELSE 'ready' END, node = NULL, reason = hit.reason,
                       held_by = CASE WHEN hit.effect = 'pause' THEN 'g:' || hit.id END
FROM (SELECT DISTINCT ON (w.id) w.id AS job, g.id, g.effect, g.reason FROM unnest(:ids::uuid[]) AS w(id) JOIN rota.jobs r ON r.id = w.id
      JOIN rota.gates g ON g.opened_at IS NULL AND (g.until IS NULL OR g.until > rota.clock(:now)) AND g.job IS DISTINCT FROM r.id
                           AND rota.fits(g, r.owner, r.task, r.queue, r.requirements)
      ORDER BY w.id, g.created_at, g.id) hit
WHERE j.id = hit.job RETURNING j.id::text

-- name: start_jobs
WITH started AS (
    UPDATE rota.jobs SET started_at = rota.clock(:now), tries = tries + 1, expires_at = NULL
    WHERE id = ANY (:ids::uuid[]) RETURNING id, owner, queue, task, tries, node, started_at
), told AS (   -- if somebody watches
    INSERT INTO rota.outbox (at, kind, owner, subject, data)
    SELECT s.started_at, 'job.started', s.owner, '',
           json_build_object('queue', s.queue, 'task', s.task, 'attempt', s.tries, 'node', n.id, 'jobs', json_agg(s.id))::text
    FROM started s JOIN rota.nodes n ON n.incarnation = s.node JOIN rota.watches w ON w.owner = s.owner AND w.until > s.started_at
    GROUP BY s.started_at, s.owner, s.queue, s.task, s.tries, n.id
)
SELECT started_at FROM started

-- name: hand_back_states
-- Which of these attempts run, started or not; and which were handed back before: not running, and no attempt recorded.
SELECT wanted.place - 1, j.id::text, j.state = 'running' AND j.started_at IS NULL,
       j.state <> 'running' AND NOT EXISTS (SELECT FROM rota.attempts a WHERE a.job = j.id AND a.fence = j.fence), j.cancel
FROM unnest(:ids::uuid[], :fences::bigint[]) WITH ORDINALITY AS wanted(id, fence, place)
JOIN rota.jobs j ON j.id = wanted.id AND j.fence = wanted.fence
ORDER BY j.id FOR UPDATE OF j

-- name: handed_back_before
-- The same for ended jobs, which were handed back after they had been cancelled.
SELECT wanted.place - 1
FROM unnest(:ids::uuid[], :fences::bigint[]) WITH ORDINALITY AS wanted(id, fence, place)
JOIN rota.history h ON h.id = wanted.id AND h.fence = wanted.fence
WHERE h.outcome IS NULL AND NOT EXISTS (SELECT FROM rota.attempts a WHERE a.job = h.id AND a.fence = h.fence)

-- name: hand_back_jobs
UPDATE rota.jobs SET state = 'ready', node = NULL, reason = NULL WHERE id = ANY (:ids::uuid[])

-- name: end_unstarted
-- A job that was cancelled while it was claimed ahead ends when it goes back; there was no attempt.
WITH gone AS (
    DELETE FROM rota.jobs WHERE id = ANY (:ids::uuid[]) RETURNING *
), told AS (
    INSERT INTO rota.outbox (at, kind, owner, subject, data)
    SELECT rota.clock(:now), 'job.cancelled', owner, id::text, json_build_object('queue', queue, 'task', task, 'reason', cancel)::text
    FROM gone
)
INSERT INTO rota.history ({jobs.kept}, state, reason, finished_at, lasting)
SELECT {jobs.kept}, 'cancelled', cancel, rota.clock(:now), false FROM gone

-- name: succeed
-- The usual end: the job moves to the history, in one row, if the fence still holds. Returns which jobs have children,
-- and which held keys.
WITH ended AS (
    DELETE FROM rota.jobs j USING unnest(:ids::uuid[], :fences::bigint[], :codes::integer[], :results::text[], :usages::text[])
                                  AS wanted(id, fence, exit_code, result, usage)
    WHERE j.id = wanted.id AND j.fence = wanted.fence AND j.state = 'running' AND j.started_at IS NOT NULL
    RETURNING j.*, wanted.exit_code, wanted.result, wanted.usage
), kept AS (
    INSERT INTO rota.history ({jobs.kept}, state, node, finished_at, outcome, exit_code, result, usage, lasting)
    SELECT {jobs.kept e}, 'succeeded', coalesce(n.id, e.node), rota.clock(:now), 'succeeded', exit_code, result, usage, false
    FROM ended e LEFT JOIN rota.nodes n ON n.incarnation = e.node
), told AS (
    INSERT INTO rota.outbox (at, kind, owner, subject, data)
    SELECT rota.clock(:now), 'job.succeeded', owner, '', json_build_object('queue', queue, 'task', task, 'jobs', json_agg(id))::text
    FROM ended GROUP BY owner, queue, task
)
SELECT id::text, tied, special FROM ended

-- name: attempt_states
-- How each settlement finds its job: still running under that fence, or ended under it before (then: with which outcome).
SELECT wanted.place - 1, j.id IS NOT NULL AND j.state = 'running' AND j.fence = wanted.fence, j.cancel, j.owner,
       coalesce((SELECT a.outcome FROM rota.attempts a WHERE a.job = wanted.id AND a.fence = wanted.fence LIMIT 1),
                (SELECT h.outcome FROM rota.history h WHERE h.id = wanted.id AND h.fence = wanted.fence LIMIT 1)), j.tied, j.special,
       j.queue, j.task
FROM unnest(:ids::uuid[], :fences::bigint[]) WITH ORDINALITY AS wanted(id, fence, place)
LEFT JOIN rota.jobs j ON j.id = wanted.id

-- name: end_jobs
-- Attempts that end their jobs. One that never started leaves no attempt.
WITH ended AS (
    DELETE FROM rota.jobs j
    USING unnest(:ids::uuid[], :states::text[], :outcomes::text[], :codes::integer[], :errors::text[], :results::text[],
                 :failures::bigint[], :crashes::bigint[], :interruptions::bigint[], :reasons::text[], :usages::text[], :groups::text[])
          AS w(id, ending, outcome, exit_code, error, result, failed, crashed, interrupted, why, usage, error_group)
    WHERE j.id = w.id
    RETURNING j.*, w.ending, w.outcome, w.exit_code, w.error, w.result, w.failed, w.crashed, w.interrupted, w.why, w.usage,
              w.error_group
)
INSERT INTO rota.history ({jobs.kept}, state, node, reason, finished_at, outcome, exit_code, error, result, usage, lasting,
                          error_group)
SELECT {jobs.kept e; failures = e.failures + e.failed; crashes = e.crashes + e.crashed; interruptions = e.interruptions + e.interrupted},
       e.ending, CASE WHEN e.started_at IS NULL THEN NULL ELSE coalesce(n.id, e.node) END, e.why, rota.clock(:now),
       CASE WHEN e.started_at IS NULL THEN NULL ELSE e.outcome END, e.exit_code, e.error, e.result, e.usage, e.ending = 'failed',
       e.error_group
FROM ended e LEFT JOIN rota.nodes n ON n.incarnation = e.node

-- name: record_attempts
-- Attempts that don't end their jobs.
INSERT INTO rota.attempts ({attempts.kept})
SELECT {attempts.kept wanted; job = j.id; number = j.tries; fence = j.fence; node = coalesce(n.id, j.node); started_at = j.started_at;
        finished_at = rota.clock(:now)}
FROM unnest(:ids::uuid[], :outcomes::text[], :codes::integer[], :errors::text[], :results::text[], :usages::text[])
     AS wanted(id, outcome, exit_code, error, result, usage)
JOIN rota.jobs j ON j.id = wanted.id
LEFT JOIN rota.nodes n ON n.incarnation = j.node
WHERE j.started_at IS NOT NULL

-- name: move_jobs
-- A delay that is null leaves rank and time as they are.
UPDATE rota.jobs j
SET state = wanted.state,
    run_at = CASE WHEN wanted.delay IS NULL THEN run_at ELSE rota.clock(:now) + wanted.delay END,
    rank = CASE WHEN wanted.delay IS NULL THEN rank ELSE rota.clock(:now) + wanted.delay + priority * :step::bigint END,
    level = CASE WHEN wanted.delay IS NULL THEN level ELSE 0 END, own_step = CASE WHEN wanted.delay IS NULL THEN own_step END,
    failures = j.failures + wanted.failures, crashes = j.crashes + wanted.crashes,
    interruptions = j.interruptions + wanted.interruptions, reason = wanted.reason, node = NULL, cancel = NULL
FROM unnest(:ids::uuid[], :states::text[], :delays::bigint[], :failures::bigint[], :crashes::bigint[],
            :interruptions::bigint[], :reasons::text[])
     AS wanted(id, state, delay, failures, crashes, interruptions, reason)
WHERE j.id = wanted.id

-- name: cut_output
-- Deletes the chunks that marks replace, in attempts that still run; returns their bytes by owner. (The row of the job is
-- share-locked: the marks will be kept.)
WITH open AS MATERIALIZED (
    SELECT j.id, j.fence, j.owner FROM rota.jobs j
    WHERE j.id = ANY (:jobs::uuid[]) AND j.state = 'running' ORDER BY j.id FOR SHARE
), gone AS (
    DELETE FROM rota.output o
    USING unnest(:jobs::uuid[], :fences::bigint[], :firsts::bigint[], :lasts::bigint[]) AS cut(job, fence, first, last), open
    WHERE open.id = cut.job AND open.fence = cut.fence
      AND o.job = cut.job AND o.fence = cut.fence AND o.number >= cut.first AND o.number <= cut.last
    RETURNING open.owner, CASE WHEN o.stream = 'cut' THEN 0 ELSE octet_length(o.body) END AS size
)
SELECT owner, sum(size)::bigint FROM gone GROUP BY owner

-- name: append_output
-- New chunks of attempts that still run. (The row of the job is share-locked: it can't end meanwhile.) Those of users with a
-- quota for output are only appended if they were `judged`; otherwise their owners are returned.
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest(:jobs::uuid[], :fences::bigint[], :numbers::bigint[], :times::bigint[], :streams::text[], :bodies::bytea[])
      WITH ORDINALITY AS wanted(job, fence, number, at, stream, body, place)
), open AS MATERIALIZED (
    SELECT j.id, j.fence, CASE WHEN NOT :judged::boolean THEN (
               SELECT u.name FROM rota.users u WHERE u.name = j.owner AND u.output_allowed IS NOT NULL) END AS bounded
    FROM rota.jobs j
    WHERE j.id = ANY (:jobs::uuid[]) AND j.state = 'running' ORDER BY j.id FOR SHARE OF j
), kept AS MATERIALIZED (
    SELECT w.place FROM wanted w
    WHERE EXISTS (SELECT FROM rota.output o WHERE o.job = w.job AND o.fence = w.fence AND o.number = w.number)
), fresh AS MATERIALIZED (
    SELECT DISTINCT ON (w.job, w.fence, w.number) w.* FROM wanted w JOIN open ON open.id = w.job AND open.fence = w.fence
    WHERE w.place NOT IN (SELECT place FROM kept) AND open.bounded IS NULL
    ORDER BY w.job, w.fence, w.number, w.place
), appended AS (
    INSERT INTO rota.output ({output.kept}) SELECT {output.kept; kept_at = rota.clock(:now)} FROM fresh
)
SELECT w.place - 1, w.place IN (SELECT place FROM kept), w.place IN (SELECT place FROM fresh),
       EXISTS (SELECT FROM open WHERE open.id = w.job AND open.fence = w.fence),
       (SELECT open.bounded FROM open WHERE open.id = w.job AND open.fence = w.fence)
FROM wanted w

-- name: still_running
SELECT w.place - 1 FROM unnest(:jobs::uuid[], :fences::bigint[]) WITH ORDINALITY AS w(job, fence, place)
JOIN rota.jobs j ON j.id = w.job AND j.fence = w.fence AND j.state = 'running'

-- name: cut_late
-- Like `cut_output`, for attempts that ended because their node was gone.
WITH gone AS (
    DELETE FROM rota.output o
    USING unnest(:jobs::uuid[], :fences::bigint[], :firsts::bigint[], :lasts::bigint[]) AS cut(job, fence, first, last)
    WHERE rota.ended_unheard(cut.job, cut.fence)
      AND o.job = cut.job AND o.fence = cut.fence AND o.number >= cut.first AND o.number <= cut.last
    RETURNING o.job, CASE WHEN o.stream = 'cut' THEN 0 ELSE octet_length(o.body) END AS size
), owned AS (
    SELECT coalesce((SELECT j.owner FROM rota.jobs j WHERE j.id = gone.job),
                    (SELECT h.owner FROM rota.history h WHERE h.id = gone.job)) AS owner, size FROM gone
)
SELECT owner, sum(size)::bigint FROM owned WHERE owner IS NOT NULL GROUP BY owner

-- name: append_late
-- Like `append_output`, for attempts that ended because their node was gone. That end waited for each append of the node, or
-- the append was refused: so what is there is seen here. Also returns whether an attempt still runs: it is too early then.
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest(:jobs::uuid[], :fences::bigint[], :numbers::bigint[], :times::bigint[], :streams::text[], :bodies::bytea[])
      WITH ORDINALITY AS wanted(job, fence, number, at, stream, body, place)
), open AS MATERIALIZED (
    SELECT w.job AS id, w.fence, CASE WHEN NOT :judged::boolean THEN (
               SELECT u.name FROM rota.users u WHERE u.output_allowed IS NOT NULL AND u.name = coalesce(
                   (SELECT j.owner FROM rota.jobs j WHERE j.id = w.job),
                   (SELECT h.owner FROM rota.history h WHERE h.id = w.job))) END AS bounded
    FROM (SELECT DISTINCT job, fence FROM wanted) w WHERE rota.ended_unheard(w.job, w.fence)
), kept AS MATERIALIZED (
    SELECT w.place FROM wanted w
    WHERE EXISTS (SELECT FROM rota.output o WHERE o.job = w.job AND o.fence = w.fence AND o.number = w.number)
), fresh AS MATERIALIZED (
    SELECT DISTINCT ON (w.job, w.fence, w.number) w.* FROM wanted w JOIN open ON open.id = w.job AND open.fence = w.fence
    WHERE w.place NOT IN (SELECT place FROM kept) AND open.bounded IS NULL
    ORDER BY w.job, w.fence, w.number, w.place
), appended AS (
    INSERT INTO rota.output ({output.kept}) SELECT {output.kept; kept_at = rota.clock(:now)} FROM fresh
)
SELECT w.place - 1, w.place IN (SELECT place FROM kept), w.place IN (SELECT place FROM fresh),
       EXISTS (SELECT FROM open WHERE open.id = w.job AND open.fence = w.fence),
       (SELECT open.bounded FROM open WHERE open.id = w.job AND open.fence = w.fence),
       EXISTS (SELECT FROM rota.jobs j WHERE j.id = w.job AND j.fence = w.fence AND j.state = 'running')
FROM wanted w

-- name: note
-- Progress and states of attempts that still run, unless a later note was written; each job once. (The row of the job
-- is share-locked: it can't end meanwhile.)
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest(:jobs::uuid[], :fences::bigint[], :numbers::bigint[], :fractions::double precision[], :texts::text[],
                         :times::bigint[], :states::text[])
      WITH ORDINALITY AS wanted(job, fence, number, fraction, text, at, state, place)
), open AS MATERIALIZED (
    SELECT j.id, j.fence FROM rota.jobs j
    WHERE j.id = ANY (:jobs::uuid[]) AND j.state = 'running' ORDER BY j.id FOR SHARE
), fresh AS MATERIALIZED (
    SELECT w.* FROM wanted w JOIN open ON open.id = w.job AND open.fence = w.fence ORDER BY w.job
), told AS (
    INSERT INTO rota.progress AS p (job, fence, number, fraction, text, at)
    SELECT job, fence, number, fraction, text, at FROM fresh WHERE at IS NOT NULL
    ON CONFLICT (job) DO UPDATE SET fence = excluded.fence, number = excluded.number, fraction = excluded.fraction,
                                    text = excluded.text, at = excluded.at
    WHERE (p.fence, p.number) < (excluded.fence, excluded.number)
    RETURNING p.job
), saved AS (
    INSERT INTO rota.checkpoints AS c (job, fence, number, state)
    SELECT job, fence, number, state FROM fresh WHERE state IS NOT NULL
    ON CONFLICT (job) DO UPDATE SET fence = excluded.fence, number = excluded.number, state = excluded.state
    WHERE (c.fence, c.number) < (excluded.fence, excluded.number)
    RETURNING c.job
)
SELECT w.place - 1,
       w.place IN (SELECT f.place FROM fresh f WHERE f.job IN (SELECT job FROM told) OR f.job IN (SELECT job FROM saved)),
       EXISTS (SELECT FROM open WHERE open.id = w.job AND open.fence = w.fence)
       OR EXISTS (SELECT FROM rota.progress p WHERE p.job = w.job AND p.fence = w.fence AND p.number >= w.number)
       OR EXISTS (SELECT FROM rota.checkpoints c WHERE c.job = w.job AND c.fence = w.fence AND c.number >= w.number)
FROM wanted w

-- name: promote
-- Due jobs become ready; jobs that expired before they started end. Rows locked by others are skipped.
WITH moment AS MATERIALIZED (
    SELECT rota.clock(:now) AS now, rota.clock(:now) - :late::bigint AS before, clock_timestamp() AS began
), late AS MATERIALIZED (
    SELECT j.ctid AS place FROM rota.jobs j
    WHERE j.expires_at IS NOT NULL AND j.expires_at <= (SELECT before FROM moment) AND j.node IS NULL
    ORDER BY j.expires_at LIMIT :limit::integer FOR UPDATE OF j SKIP LOCKED
), expired AS (
    DELETE FROM rota.jobs j USING late WHERE j.ctid = late.place RETURNING j.*
), ended AS (
    INSERT INTO rota.history ({jobs.kept}, state, reason, finished_at, lasting)
    SELECT {jobs.kept}, 'cancelled', 'expired', moment.now, false FROM expired, moment RETURNING 1
), told AS (
    INSERT INTO rota.outbox (at, kind, owner, subject, data)
    SELECT moment.now, 'job.cancelled', owner, '',
           json_build_object('queue', queue, 'task', task, 'reason', 'expired', 'jobs', json_agg(id))::text
    FROM expired, moment GROUP BY moment.now, owner, queue, task
), due AS MATERIALIZED (
    SELECT j.ctid AS place FROM rota.jobs j
    WHERE j.state = 'scheduled' AND j.run_at >= :floor::bigint AND j.run_at <= (SELECT before FROM moment)
      AND (j.expires_at IS NULL OR j.expires_at > (SELECT before FROM moment))
    ORDER BY j.run_at LIMIT :limit::integer FOR UPDATE OF j SKIP LOCKED
), moved AS (
    UPDATE rota.jobs j SET state = 'ready' FROM due WHERE j.ctid = due.place RETURNING j.run_at
)
SELECT moment.now, (SELECT count(*) FROM moved), (SELECT min(run_at) FROM moved), (SELECT count(*) FROM ended),
       (SELECT bool_or(tied) FROM expired),
       -- If the limit left jobs over, the next instant is that of the first of them.
       (SELECT j.run_at FROM rota.jobs j WHERE j.state = 'scheduled'
          AND j.run_at >= CASE WHEN (SELECT count(*) FROM due) < :limit::integer THEN moment.before + 1 ELSE :floor::bigint END
        ORDER BY j.run_at
        OFFSET CASE WHEN (SELECT count(*) FROM due) < :limit::integer THEN 0 ELSE :limit::integer END LIMIT 1),
       (SELECT j.expires_at FROM rota.jobs j
        WHERE j.expires_at IS NOT NULL AND j.node IS NULL AND j.expires_at > moment.before ORDER BY j.expires_at LIMIT 1),
       (extract(epoch FROM clock_timestamp() - began) * 1000000)::bigint   -- of the server's time
FROM moment

-- name: promote_jobs
-- As `promote`, of these jobs. A plain condition on the state would invite the index of all scheduled jobs.
WITH moment AS MATERIALIZED (
    SELECT rota.clock(:now) AS now
), due AS MATERIALIZED (
    SELECT j.ctid AS place FROM rota.jobs j
    WHERE j.id = ANY (:ids::uuid[])
      AND CASE j.state WHEN 'scheduled' THEN j.run_at <= (SELECT now FROM moment)
                                             AND (j.expires_at IS NULL OR j.expires_at > (SELECT now FROM moment)) END
    FOR UPDATE OF j SKIP LOCKED
), moved AS (
    UPDATE rota.jobs j SET state = 'ready' FROM due WHERE j.ctid = due.place RETURNING 1
)
SELECT moment.now, (SELECT count(*) FROM moved) FROM moment
