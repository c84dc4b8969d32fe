-- works with: 7

-- Ready functions by task. A node reads the tasks that it offers here, so functions of other apps are never in its way.
CREATE INDEX jobs_ready_by_task ON rota.jobs (queue, task, rank, id) WHERE state = 'ready' AND kind = 'function';

-- A client makes its tasks known before a node offers them; only a node sets `offered`.
ALTER TABLE rota.tasks ADD COLUMN offered boolean NOT NULL DEFAULT true;

-- The best `most` ready functions of these tasks that rank behind (edge, edge_id), locked for the claim that asks.
-- First the head of each task, then how many of each task are among the best, then so many of each task past those that others
-- hold: no more rows are locked than are returned, and other nodes find the rest.
CREATE FUNCTION rota.ready_of_tasks(wanted_queue text, tasks text[], edge bigint, edge_id uuid, most bigint, moment bigint)
RETURNS TABLE (place tid, rank bigint, id uuid, special boolean, owner text, task text, traits text, level smallint, own_step bigint)
LANGUAGE plpgsql ROWS 10 AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH firsts AS MATERIALIZED (
        SELECT own.task, head.rank, head.id FROM unnest(tasks) AS own(task) CROSS JOIN LATERAL (
            SELECT j.rank, j.id FROM rota.jobs j
            WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = wanted_queue AND j.task = own.task
              AND (j.rank, j.id) > (edge, edge_id) AND (j.expires_at IS NULL OR j.expires_at > moment)
            ORDER BY j.rank, j.id LIMIT 1
        ) AS head ORDER BY head.rank, head.id LIMIT most
    ), quotas AS MATERIALIZED (
        SELECT best.task, best.rank, best.id, count(*) AS quota FROM (
            SELECT f.* FROM firsts f CROSS JOIN LATERAL (
                SELECT j.rank, j.id FROM rota.jobs j
                WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = wanted_queue AND j.task = f.task
                  AND (j.rank, j.id) >= (f.rank, f.id) AND (j.expires_at IS NULL OR j.expires_at > moment)
                ORDER BY j.rank, j.id LIMIT most
            ) AS one ORDER BY one.rank, one.id LIMIT most
        ) AS best GROUP BY best.task, best.rank, best.id
    )
    SELECT head.* FROM quotas q CROSS JOIN LATERAL (
        SELECT j.ctid, j.rank, j.id, j.special, j.owner, j.task, j.traits, j.level, j.own_step FROM rota.jobs j
        WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = wanted_queue AND j.task = q.task
          AND (j.rank, j.id) >= (q.rank, q.id) AND (j.expires_at IS NULL OR j.expires_at > moment)
        ORDER BY j.rank, j.id LIMIT q.quota FOR UPDATE OF j SKIP LOCKED
    ) AS head;
END $$;

-- The first `most` ready jobs of a queue and a kind that this node may run. Nothing is locked: a caller that writes locks for itself.
CREATE FUNCTION rota.front(wanted_queue text, wanted_kind text, tasks text[], most integer, moment bigint)
RETURNS TABLE (id uuid) LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
    IF wanted_kind = 'function' THEN
        RETURN QUERY SELECT head.id FROM unnest(tasks) AS own(task) CROSS JOIN LATERAL (
            SELECT j.rank, j.id FROM rota.jobs j
            WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = wanted_queue AND j.task = own.task
              AND (j.expires_at IS NULL OR j.expires_at > moment)
            ORDER BY j.rank, j.id LIMIT most
        ) AS head ORDER BY head.rank, head.id LIMIT most;
    ELSE
        RETURN QUERY SELECT j.id FROM rota.jobs j WHERE j.state = 'ready' AND j.queue = wanted_queue AND j.kind = wanted_kind
                       AND (j.expires_at IS NULL OR j.expires_at > moment)
                     ORDER BY j.rank, j.id LIMIT most;
    END IF;
END $$;

-- As before; but a flow of a function is found by its task, however much of other tasks stands before it.
CREATE OR REPLACE FUNCTION rota.put_back(ids uuid[], step bigint, most integer) RETURNS bigint LANGUAGE sql AS $$
    WITH fallen AS MATERIALIZED (
        SELECT DISTINCT j.queue, j.kind, j.owner, j.task, f.level FROM rota.jobs j
        JOIN rota.flows f ON f.queue = j.queue AND f.flow = j.owner || '/' || j.task
        WHERE j.id = ANY (ids) AND j.state = 'ready' AND f.level > j.level
    ), front AS MATERIALIZED (
        SELECT one.* FROM (SELECT DISTINCT queue, kind FROM fallen WHERE kind <> 'function') lane CROSS JOIN LATERAL (
            SELECT j.id, j.queue, j.kind, j.owner, j.task, j.level FROM rota.jobs j
            WHERE j.state = 'ready' AND j.queue = lane.queue AND j.kind = lane.kind ORDER BY j.rank, j.id LIMIT most
        ) one
        UNION ALL
        SELECT one.* FROM (SELECT DISTINCT queue, task FROM fallen WHERE kind = 'function') lane CROSS JOIN LATERAL (
            SELECT j.id, j.queue, j.kind, j.owner, j.task, j.level FROM rota.jobs j
            WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = lane.queue AND j.task = lane.task
            ORDER BY j.rank, j.id LIMIT most
        ) one
    ), behind AS MATERIALIZED (
        SELECT held.id, fallen.level FROM front
        JOIN fallen ON fallen.queue = front.queue AND fallen.kind = front.kind AND fallen.owner = front.owner
                   AND fallen.task = front.task AND fallen.level > front.level
        CROSS JOIN LATERAL (SELECT h.id FROM rota.jobs h WHERE h.id = front.id AND h.node IS NULL FOR UPDATE SKIP LOCKED) held
    ), moved AS (
        UPDATE rota.jobs j SET rank = j.rank + (behind.level - j.level) * step, level = behind.level
        FROM behind WHERE j.id = behind.id RETURNING 1
    )
    SELECT count(*) FROM moved $$;
