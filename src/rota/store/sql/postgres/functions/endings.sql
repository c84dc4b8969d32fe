-- Ends waiting jobs without an attempt: they move to the history. Returns their number.
CREATE OR REPLACE FUNCTION rota.put_away(ids uuid[], ending text, reasons text[], moment bigint) RETURNS bigint
LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM rota.jobs WHERE id = ANY (ids) AND node IS NULL RETURNING *
    ), kept AS (
        INSERT INTO rota.history (id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at,
                                  started_at, fence, tries, failures, crashes, interruptions, replays, reason, spec, digest,
                                  args, retry, timeout, key, requirements, finished_at, lasting)
        SELECT g.id, g.owner, ending, g.queue, g.kind, g.task, g.priority, g.rank, g.run_at, g.expires_at, g.created_at,
               g.started_at, g.fence, g.tries, g.failures, g.crashes, g.interruptions, g.replays,
               reasons[array_position(ids, g.id)], g.spec, g.digest, g.args, g.retry, g.timeout, g.key, g.requirements, moment, false
        FROM gone g RETURNING 1
    )
    SELECT count(*) FROM kept $$;
