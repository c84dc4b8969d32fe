-- Ranks that change with an ageing step (`model.rank.ranked_by`) or a feedback level (`model.rank.shifted`), for thousands of rows at
-- once. tests/store/postgres/test_rules.py holds the arithmetic against the model.

-- Ranks ready jobs of these queues by the queues' current ageing steps. Jobs are ordered with the global step; a claim that
-- meets one in a queue with its own step has it ranked anew, together with those behind it. Of each kind at most `reach` jobs
-- are read (NULL: all) and at most `most` ranked anew.
CREATE OR REPLACE FUNCTION rota.rank_anew(names text[], usual bigint, most integer, reach integer) RETURNS bigint LANGUAGE sql AS $$
    WITH wrong AS MATERIALIZED (
        SELECT one.id, q.step FROM unnest(names) AS wanted(name) LEFT JOIN rota.queues q ON q.name = wanted.name
        CROSS JOIN LATERAL (
            SELECT j.id FROM unnest('{function,command,http}'::text[]) AS kinds(kind)
            CROSS JOIN LATERAL (
                SELECT held.id FROM (SELECT r.id, r.own_step FROM rota.jobs r WHERE r.state = 'ready' AND r.queue = wanted.name
                                     AND r.kind = kinds.kind ORDER BY r.rank, r.id LIMIT reach) front
                CROSS JOIN LATERAL (SELECT h.id FROM rota.jobs h WHERE h.id = front.id AND h.node IS NULL FOR UPDATE SKIP LOCKED) held
                WHERE front.own_step IS DISTINCT FROM q.step LIMIT most
            ) j
        ) one
    ), ranked AS (
        UPDATE rota.jobs j SET rank = j.rank + j.priority * (coalesce(wrong.step, usual) - coalesce(j.own_step, usual)), own_step = wrong.step
        FROM wrong WHERE j.id = wrong.id RETURNING 1
    )
    SELECT count(*) FROM ranked $$;

-- The flow that is charged for a job's slots, within those of its owner. The index jobs_put_back has the same expression.
CREATE OR REPLACE FUNCTION rota.flow_of(task text, requirements text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(requirements::jsonb ->> 'flow', task) $$;

-- Puts back the jobs of flows whose level has risen: all at the front of the line that a claim would have to read one by one.
-- The jobs of a function's flow are found by their task, however many jobs of other tasks rank before them.
CREATE OR REPLACE FUNCTION rota.put_back(ids uuid[], step bigint, most integer) RETURNS bigint LANGUAGE sql AS $$
    WITH fallen AS MATERIALIZED (
        SELECT DISTINCT j.queue, j.kind, j.owner, j.task, rota.flow_of(j.task, j.requirements) AS flow, f.level FROM rota.jobs j
        JOIN rota.flows f ON f.queue = j.queue AND f.flow = j.owner || '/' || rota.flow_of(j.task, j.requirements)
        WHERE j.id = ANY (ids) AND j.state = 'ready' AND f.level > j.level
    ), front AS MATERIALIZED (
        SELECT one.* FROM (SELECT DISTINCT queue, kind FROM fallen WHERE kind <> 'function') lane CROSS JOIN LATERAL (
            SELECT j.id, j.queue, j.kind, j.owner, j.task, rota.flow_of(j.task, j.requirements) AS flow, j.level FROM rota.jobs j
            WHERE j.state = 'ready' AND j.queue = lane.queue AND j.kind = lane.kind ORDER BY j.rank, j.id LIMIT most
        ) one
        UNION ALL
        SELECT one.* FROM (SELECT DISTINCT queue, task FROM fallen WHERE kind = 'function') lane CROSS JOIN LATERAL (
            SELECT j.id, j.queue, j.kind, j.owner, j.task, rota.flow_of(j.task, j.requirements) AS flow, j.level FROM rota.jobs j
            WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = lane.queue AND j.task = lane.task
            ORDER BY j.rank, j.id LIMIT most
        ) one
    ), behind AS MATERIALIZED (
        SELECT held.id, fallen.level FROM front
        JOIN fallen ON fallen.queue = front.queue AND fallen.kind = front.kind AND fallen.owner = front.owner
                   AND fallen.task = front.task AND fallen.flow = front.flow AND fallen.level > front.level
        CROSS JOIN LATERAL (SELECT h.id FROM rota.jobs h WHERE h.id = front.id AND h.node IS NULL FOR UPDATE SKIP LOCKED) held
    ), moved AS (
        UPDATE rota.jobs j SET rank = j.rank + (behind.level - j.level) * step, level = behind.level
        FROM behind WHERE j.id = behind.id RETURNING 1
    )
    SELECT count(*) FROM moved $$;
