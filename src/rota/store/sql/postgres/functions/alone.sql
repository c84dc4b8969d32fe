-- Jobs that run alone. Such a job closes a gate. A claim that read the gates before that gate was committed does not
-- know of it and may still start a job. So every claim holds an advisory lock, shared, from before it reads the gates
-- until its transaction has ended. Once the gate is committed, the holders of that lock are recorded in `gates.claims`
-- (NULL: not yet) and taken off the list as they end. When none is left, every job they have started is visible, and
-- all later claims know of the gate. The lock is never taken exclusively: a claim that hangs delays the job that waits to be alone and no
-- other claim.
CREATE OR REPLACE FUNCTION rota.claims_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended('rota' || ' claims', 0) $$;

-- The transactions of claims that have read the gates and not ended yet.
CREATE OR REPLACE FUNCTION rota.claims_under_way() RETURNS text[] LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.classid = ((rota.claims_lock() >> 32) & 4294967295)::oid AND l.objid = (rota.claims_lock() & 4294967295)::oid
      AND l.objsubid = 1 $$;

-- Whether no job that the gate of the job matches runs, and none can start any more.
CREATE OR REPLACE FUNCTION rota.is_alone(job uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM rota.gates g WHERE g.job = is_alone.job AND g.opened_at IS NULL AND g.claims = '{}'
           AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.node IS NOT NULL AND j.id <> is_alone.job
                             AND rota.fits(g, j.owner, j.task, j.queue, j.requirements))) $$;
