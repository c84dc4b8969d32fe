-- Ends waiting jobs without an attempt: they move to the history. Returns their number.
CREATE OR REPLACE FUNCTION rota.put_away(ids uuid[], ending text, reasons text[], moment bigint, causes text[] DEFAULT NULL) RETURNS bigint
LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM rota.jobs WHERE id = ANY (ids) AND node IS NULL RETURNING *
    ), kept AS (
        INSERT INTO rota.history ({jobs.kept}, state, reason, finished_at, lasting, skip_cause)
        SELECT {jobs.kept g}, ending, reasons[array_position(ids, g.id)], moment, false, causes[array_position(ids, g.id)] FROM gone g RETURNING 1
    )
    SELECT count(*) FROM kept $$;
