-- works with: 6

-- What attempts tell while they run, and what they used up.
ALTER TABLE rota.attempts ADD COLUMN usage text;
ALTER TABLE rota.history  ADD COLUMN usage text;   -- of its last attempt

-- Apart from the jobs: their rows are wide and have many indexes, these are narrow and their updates stay in their page. And
-- apart from each other, as one is told five times a second and the other may be long. `number` counts what one attempt has
-- told, so that a repeat of something older, which was on its way all the time, changes nothing.
CREATE TABLE rota.progress (
    job      uuid   NOT NULL PRIMARY KEY,
    fence    bigint NOT NULL,
    number   bigint NOT NULL,
    fraction double precision CHECK (fraction BETWEEN 0 AND 1),   -- NULL: it can't tell how far it is
    text     text   NOT NULL CHECK (length(text) <= 200),
    at       bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What attempts have saved for those after them.
CREATE TABLE rota.checkpoints (
    job    uuid   NOT NULL PRIMARY KEY,
    fence  bigint NOT NULL,
    number bigint NOT NULL,
    state  text   NOT NULL                        -- JSON
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- VOLATILE, so that it looks anew: a claim may have begun before the attempt before it saved this.
CREATE FUNCTION rota.saved_state(job uuid) RETURNS text LANGUAGE sql VOLATILE AS
$$ SELECT c.state FROM rota.checkpoints c WHERE c.job = saved_state.job $$;

-- As before, with one more kind of job.
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
