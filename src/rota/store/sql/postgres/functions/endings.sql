-- Ends waiting jobs without an attempt: they move to the history. Returns their number.
CREATE OR REPLACE FUNCTION rota.put_away(ids uuid[], ending text, reasons text[], moment bigint, causes text[] DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM rota.jobs WHERE id = ANY (ids) AND node IS NULL RETURNING *, reasons[array_position(ids, id)] AS why
    ), told AS (
        INSERT INTO rota.outbox (at, kind, owner, subject, data)
        SELECT moment, 'job.' || ending, owner, '',
               json_build_object('queue', queue, 'task', task, 'reason', why, 'jobs', json_agg(id))::text
        FROM gone GROUP BY owner, queue, task, why
    ), kept AS (
        INSERT INTO rota.history ({jobs.kept}, state, reason, finished_at, lasting, skip_cause)
        SELECT {jobs.kept g}, ending, g.why, moment, false, causes[array_position(ids, g.id)] FROM gone g RETURNING 1
    )
    SELECT count(*) FROM kept $$;
