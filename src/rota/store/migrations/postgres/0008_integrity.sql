-- works with: 7

-- Jobs that run alone, proved by locks; one rule for the names of users; small writes when history is deleted.

-- A job that is to run alone closes a gate. A claim that looked at the gates before that gate was committed doesn't know of it and
-- may still start something. So every claim holds a lock, shared, from before its look at the gates until its transaction has
-- ended. Once the gate is committed, the holders of that lock are written down here (NULL: not yet), and taken off the list as
-- they end. When none is left, whatever they started can be seen, and all later claims know of the gate. Nobody takes the lock
-- exclusively: a claim that hangs holds up the lone job, and no other claim.
ALTER TABLE rota.gates ADD COLUMN claims text[];

CREATE FUNCTION rota.claims_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended('rota' || ' claims', 0) $$;

-- For claims: the gates that are closed, as of after the lock was taken (VOLATILE: the claim itself may have begun before).
CREATE FUNCTION rota.closed_gates(given bigint) RETURNS SETOF rota.gates LANGUAGE plpgsql VOLATILE ROWS 10 AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(rota.claims_lock());
    RETURN QUERY SELECT * FROM rota.gates g WHERE g.opened_at IS NULL AND (g.until IS NULL OR g.until > rota.clock(given));
END $$;

-- The transactions of claims that have looked at the gates and not ended yet.
CREATE FUNCTION rota.claims_under_way() RETURNS text[] LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.classid = ((rota.claims_lock() >> 32) & 4294967295)::oid AND l.objid = (rota.claims_lock() & 4294967295)::oid
      AND l.objsubid = 1 $$;

-- Whether nothing runs beside a job that wants to be alone, and nothing can any more.
CREATE OR REPLACE FUNCTION rota.is_alone(job uuid, moment bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM rota.gates g WHERE g.job = is_alone.job AND g.opened_at IS NULL AND g.claims = '{}'
           AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.node IS NOT NULL AND j.id <> is_alone.job
                             AND rota.fits(g, j.owner, j.task, j.queue, j.traits))) $$;

-- Lets jobs go on that are alone by now. At its deadline a job yields and tries again later, or has the others cancelled.
CREATE OR REPLACE FUNCTION rota.sweep_alone(given bigint, OUT moved bigint, OUT cancelled bigint, OUT next_at bigint) LANGUAGE plpgsql AS $$
DECLARE
    moment    bigint := rota.clock(given);
    under_way text[];
    one       record;
    n         bigint;
BEGIN
    moved := 0; cancelled := 0;
    FOR one IN
        SELECT j.id, g.id AS gate, (j.traits::jsonb #>> '{alone,cancel}')::boolean AS cancel,
               (j.traits::jsonb #>> '{alone,drain}')::bigint AS drain, g.created_at AS since, g.claims
        FROM rota.jobs j LEFT JOIN rota.gates g ON g.job = j.id AND g.opened_at IS NULL
        WHERE j.held_by >= 'a:' AND j.held_by < 'a;' AND j.state = 'held' ORDER BY j.rank, j.id LIMIT 1000 FOR UPDATE OF j SKIP LOCKED
    LOOP
        IF one.gate IS NOT NULL AND one.claims IS DISTINCT FROM '{}' THEN
            -- (Read after the gate was seen, so after it was committed.)
            under_way := coalesce(under_way, rota.claims_under_way());
            UPDATE rota.gates g SET claims = ARRAY(SELECT unnest(coalesce(one.claims, under_way)) INTERSECT SELECT unnest(under_way))
            WHERE g.id = one.gate;
            next_at := least(next_at, moment + 50000);
        END IF;
        next_at := least(next_at, moment + 250000);
        IF one.gate IS NULL OR rota.is_alone(one.id, moment) THEN
            UPDATE rota.jobs j SET state = 'ready', held_by = NULL, reason = NULL WHERE j.id = one.id;
            moved := moved + 1;
        ELSIF one.since + one.drain <= moment THEN
            IF one.cancel THEN
                UPDATE rota.jobs j SET cancel = 'job ' || one.id || ' is to run alone'
                FROM rota.gates g WHERE g.id = one.gate AND j.node IS NOT NULL AND j.cancel IS NULL AND j.id <> one.id
                  AND rota.fits(g, j.owner, j.task, j.queue, j.traits);
                GET DIAGNOSTICS n = ROW_COUNT;
                cancelled := cancelled + n;
            ELSE
                UPDATE rota.gates SET opened_at = moment WHERE id = one.gate;
                UPDATE rota.jobs j SET state = 'scheduled', held_by = NULL, run_at = moment + one.drain,
                                       reason = 'others were still running at its drain deadline' WHERE j.id = one.id;
                moved := moved + 1;
            END IF;
        END IF;
    END LOOP;
END $$;
