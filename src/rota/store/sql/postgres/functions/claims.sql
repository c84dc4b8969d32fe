-- The best `most` ready functions of these tasks that rank behind (edge, edge_id), including rows that another claim
-- has locked. First the head of each task is read, then the best of these tasks.
CREATE OR REPLACE FUNCTION rota.line_of_tasks(wanted_queue text, tasks text[], edge bigint, edge_id uuid, most bigint, moment bigint)
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

-- The best `most` of them that no other claim has locked, locked for this claim. It reads a line of `most` jobs and takes the free
-- ones, then goes on behind it if some were not free. No more rows are locked than are returned, so other nodes find the rest.
CREATE OR REPLACE FUNCTION rota.ready_of_tasks(wanted_queue text, tasks text[], edge bigint, edge_id uuid, most bigint, moment bigint)
RETURNS TABLE (place tid, rank bigint, id uuid, special boolean, owner text, task text, requirements text, level smallint, own_step bigint)
LANGUAGE plpgsql ROWS 10 AS $$
#variable_conflict use_column
DECLARE
    lack  bigint := most;   -- how many are still to be found
    reach bigint := most;   -- how many are read next: others may have locked many
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
            -- As an expression, so that no index of ready jobs is searched for an id.
            WHERE j.id = one.id AND coalesce(j.state, '') = 'ready' FOR UPDATE OF j SKIP LOCKED
        ) AS free LIMIT lack;
        GET DIAGNOSTICS found = ROW_COUNT;
        lack := lack - found;
        EXIT WHEN cardinality(best) < reach;
        reach := least(2 * reach + 100, 10000);
    END LOOP;
END $$;

-- The first `most` ready jobs of a queue and a kind that this node may run. Locks nothing.
CREATE OR REPLACE FUNCTION rota.front(wanted_queue text, wanted_kind text, tasks text[], most integer, moment bigint)
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

-- The checkpoint of a job. VOLATILE, so that it reads anew: a claim may have begun before the previous attempt saved this.
CREATE OR REPLACE FUNCTION rota.saved_state(job uuid) RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT c.state FROM rota.checkpoints c WHERE c.job = saved_state.job $$;
