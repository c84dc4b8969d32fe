-- Jobs that run alone. Such a job closes a gate. A claim that read the gates before that gate was committed does not know
-- of it and may still start a job. So every claim holds an advisory lock, shared, from before it reads the gates until
-- its transaction has ended. Once the gate is committed, the holders of that lock are recorded in `gates.claims` (NULL:
-- not yet) and taken off the list as they end. When none is left, every job they have started is visible, and all later
-- claims know of the gate. Nobody takes the lock exclusively: a claim that hangs delays the lone job and no other claim.
CREATE OR REPLACE FUNCTION rota.claims_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended('rota' || ' claims', 0) $$;

-- The transactions of claims that have read the gates and not ended yet.
CREATE OR REPLACE FUNCTION rota.claims_under_way() RETURNS text[] LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.classid = ((rota.claims_lock() >> 32) & 4294967295)::oid AND l.objid = (rota.claims_lock() & 4294967295)::oid
      AND l.objsubid = 1 $$;

-- Whether no job that the lone job's gate matches runs, and none can start any more.
CREATE OR REPLACE FUNCTION rota.is_alone(job uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM rota.gates g WHERE g.job = is_alone.job AND g.opened_at IS NULL AND g.claims = '{}'
           AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.node IS NOT NULL AND j.id <> is_alone.job
                             AND rota.fits(g, j.owner, j.task, j.queue, j.requirements))) $$;

-- Makes lone jobs ready that are alone by now. At its drain deadline a lone job yields and tries again later, or has the others cancelled.
CREATE OR REPLACE FUNCTION rota.sweep_alone(given bigint, OUT moved bigint, OUT cancelled bigint, OUT next_at bigint) LANGUAGE plpgsql AS $$
DECLARE
    moment    bigint := rota.clock(given);
    under_way text[];
    one       record;
    n         bigint;
BEGIN
    moved := 0; cancelled := 0;
    FOR one IN
        SELECT j.id, g.id AS gate, (j.requirements::jsonb #>> '{alone,cancel}')::boolean AS cancel,
               (j.requirements::jsonb #>> '{alone,drain}')::bigint AS drain, g.created_at AS since, g.claims
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
        IF one.gate IS NULL OR rota.is_alone(one.id) THEN
            UPDATE rota.jobs j SET state = 'ready', held_by = NULL, reason = NULL WHERE j.id = one.id;
            moved := moved + 1;
        ELSIF one.since + one.drain <= moment THEN
            IF one.cancel THEN
                UPDATE rota.jobs j SET cancel = 'job ' || one.id || ' is to run alone'
                FROM rota.gates g WHERE g.id = one.gate AND j.node IS NOT NULL AND j.cancel IS NULL AND j.id <> one.id
                  AND rota.fits(g, j.owner, j.task, j.queue, j.requirements);
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
