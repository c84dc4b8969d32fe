-- works with: 7

-- Ready functions by task. A node reads the tasks that it offers here, so functions of other apps are never in its way.
-- This comes first of all that is new since schema 7: building an index takes long on a large table, and all steps are one
-- transaction. Until here only writes to `jobs` wait; what renewals read is locked at the end, for a moment.
CREATE INDEX jobs_ready_by_task ON rota.jobs (queue, task, rank, id) WHERE state = 'ready' AND kind = 'function';

-- A client makes its tasks known before a node offers them; only a node sets `offered`.
ALTER TABLE rota.tasks ADD COLUMN offered boolean NOT NULL DEFAULT true;

-- The best `most` ready functions of these tasks that rank behind (edge, edge_id), whoever holds them just now.
-- First the head of each task, then the best of all of these tasks.
CREATE FUNCTION rota.line_of_tasks(wanted_queue text, tasks text[], edge bigint, edge_id uuid, most bigint, moment bigint)
RETURNS TABLE (rank bigint, id uuid) LANGUAGE plpgsql ROWS 10 AS $$
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
    )
    SELECT one.rank, one.id FROM firsts f CROSS JOIN LATERAL (
        SELECT j.rank, j.id FROM rota.jobs j
        WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = wanted_queue AND j.task = f.task
          AND (j.rank, j.id) >= (f.rank, f.id) AND (j.expires_at IS NULL OR j.expires_at > moment)
        ORDER BY j.rank, j.id LIMIT most
    ) AS one ORDER BY one.rank, one.id LIMIT most;
END $$;

-- The best `most` of them that nobody holds, locked for the claim that asks. Of a line as long as that, those that are free; and so
-- on behind it, if others held some. No more rows are locked than are returned, and other nodes find the rest.
CREATE FUNCTION rota.ready_of_tasks(wanted_queue text, tasks text[], edge bigint, edge_id uuid, most bigint, moment bigint)
RETURNS TABLE (place tid, rank bigint, id uuid, special boolean, owner text, task text, requirements text, level smallint, own_step bigint)
LANGUAGE plpgsql ROWS 10 AS $$
#variable_conflict use_column
DECLARE
    lack  bigint := most;   -- so many are still to be found
    reach bigint := most;   -- so many are looked at next: others may hold many
    best  uuid[];
    found bigint;
BEGIN
    WHILE lack > 0 LOOP
        SELECT array_agg(l.id ORDER BY l.rank, l.id), (array_agg(l.rank ORDER BY l.rank DESC, l.id DESC))[1],
               (array_agg(l.id ORDER BY l.rank DESC, l.id DESC))[1]
        INTO best, edge, edge_id FROM rota.line_of_tasks(wanted_queue, tasks, edge, edge_id, reach, moment) l;
        EXIT WHEN best IS NULL;
        RETURN QUERY SELECT free.* FROM unnest(best) AS one(id) CROSS JOIN LATERAL (
            SELECT j.ctid, j.rank, j.id, j.special, j.owner, j.task, j.requirements, j.level, j.own_step FROM rota.jobs j
            -- (As an expression: an index of ready jobs must not be searched for an id.)
            WHERE j.id = one.id AND coalesce(j.state, '') = 'ready' FOR UPDATE OF j SKIP LOCKED
        ) AS free LIMIT lack;
        GET DIAGNOSTICS found = ROW_COUNT;
        lack := lack - found;
        EXIT WHEN cardinality(best) < reach;
        reach := least(2 * reach + 100, 10000);
    END LOOP;
END $$;

-- The first `most` ready jobs of a queue and a kind that this node may run. Only looks: nobody is kept from them.
CREATE FUNCTION rota.front(wanted_queue text, wanted_kind text, tasks text[], most integer, moment bigint)
RETURNS TABLE (id uuid) LANGUAGE plpgsql ROWS 100 AS $$
#variable_conflict use_column
BEGIN
    IF wanted_kind = 'function' THEN
        RETURN QUERY SELECT f.id FROM rota.line_of_tasks(
            wanted_queue, tasks, (-9223372036854775808)::bigint, '00000000-0000-0000-0000-000000000000'::uuid, most, moment) f;
    ELSE
        RETURN QUERY SELECT j.id FROM rota.jobs j WHERE j.state = 'ready' AND j.queue = wanted_queue AND j.kind = wanted_kind
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
