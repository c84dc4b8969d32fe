-- The rule of `model.admission.ClaimAdmission`, for sets of jobs: ready jobs that a gate fits or that need keys are claimed or moved
-- aside (`only_gates`: no more than what gates hold or drop). tests/store/postgres/test_admission_rules.py holds it against the model.
--
-- It is decided here because of the lock: an advisory lock serialises callers, so counts are exact. Decided by the client, the lock
-- would be held for four round trips instead of one statement, and for seconds if the client is stopped (docs/measurements.md).
CREATE OR REPLACE FUNCTION rota.admit_claim(ids uuid[], incarnation text, given bigint, only_gates boolean, step bigint)
RETURNS TABLE ({jobs.claimed::})
LANGUAGE plpgsql SET enable_hashjoin = on AS $$
#variable_conflict use_column
DECLARE
    moment    bigint;
    rest      uuid[];
    alone_ids uuid[];
    turn      uuid[];
    barred    uuid[];
    one       record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota' || ' admission', 0));
    -- Not the time at which the statement began: it may have waited, and rates count from the start.
    moment := coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    PERFORM FROM rota.nodes n WHERE n.incarnation = admit_claim.incarnation AND n.state IN ('live', 'stopping') FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- (The state is compared outside: otherwise the planner may read all ready jobs through their index, which has the
    -- ids too.)
    SELECT array_agg(l.id) INTO rest FROM (
        SELECT j.id, j.state FROM rota.jobs j WHERE j.id = ANY (ids) ORDER BY j.id FOR UPDATE SKIP LOCKED OFFSET 0) l WHERE l.state = 'ready';

    FOR one IN
        SELECT hit.id AS gate, hit.effect, hit.reason, array_agg(j.id ORDER BY j.id) AS jobs
        FROM rota.jobs j CROSS JOIN LATERAL (
            SELECT g.id, g.effect, g.reason FROM rota.gates g
            WHERE g.opened_at IS NULL AND (g.until IS NULL OR g.until > moment) AND g.job IS DISTINCT FROM j.id
              AND rota.fits(g, j.owner, j.task, j.queue, j.requirements)
            ORDER BY g.created_at, g.id LIMIT 1
        ) hit
        WHERE j.id = ANY (rest) GROUP BY hit.id, hit.effect, hit.reason
    LOOP
        IF one.effect = 'drop' THEN
            PERFORM rota.put_away(one.jobs, 'dropped', array_fill(one.reason, ARRAY[cardinality(one.jobs)]), moment);
            UPDATE rota.gates g SET dropped = dropped + cardinality(one.jobs) WHERE g.id = one.gate;
        ELSE
            UPDATE rota.jobs j SET state = 'held', held_by = 'g:' || one.gate, reason = one.reason WHERE j.id = ANY (one.jobs);
            UPDATE rota.gates g SET opened_at = moment WHERE g.job = ANY (one.jobs) AND g.opened_at IS NULL;   -- meanwhile the others may run
        END IF;
        rest := ARRAY(SELECT r.id FROM unnest(rest) AS r(id) WHERE r.id <> ALL (one.jobs));
    END LOOP;

    IF only_gates THEN
        RETURN;
    END IF;

    -- With jobs that want to be alone, decide job by job in the order of rank.
    SELECT coalesce(array_agg(j.id ORDER BY j.rank, j.id), '{}') INTO alone_ids FROM rota.jobs j
    WHERE j.id = ANY (rest) AND j.requirements::jsonb ? 'alone';
    FOR number IN 1 .. cardinality(alone_ids) + 1 LOOP
        turn := CASE WHEN number > cardinality(alone_ids) THEN rest ELSE ARRAY(
            SELECT j.id FROM rota.jobs j JOIN rota.jobs next ON next.id = alone_ids[number]
            WHERE j.id = ANY (rest) AND (j.rank, j.id) < (next.rank, next.id)) END;
        -- A job that is the first in all of its lines is admitted; another pass serves jobs behind one that was not.
        LOOP
            EXIT WHEN coalesce(turn, '{}') = '{}';
            RETURN QUERY WITH need AS MATERIALIZED (
                SELECT * FROM rota.needs(turn, moment)
            ), placed AS MATERIALIZED (
                SELECT *, row_number() OVER (PARTITION BY owner, key ORDER BY rank, job) AS place
                FROM need WHERE job NOT IN (SELECT n.job FROM need n WHERE n.room <= 0)
            ), lucky AS MATERIALIZED (
                SELECT job, min(CASE WHEN starts IS NOT NULL THEN slack END) AS slack
                FROM placed GROUP BY job HAVING bool_and(room IS NULL OR place <= room)
            ), winner AS MATERIALIZED (
                SELECT p.*, row_number() OVER (PARTITION BY p.owner, p.key ORDER BY p.place) AS seat FROM placed p
                WHERE p.job IN (SELECT l.job FROM lucky l) AND p.key IS NOT NULL
            ), looks_back AS MATERIALIZED (
                SELECT n.owner, n.key, max(n.span) AS span FROM need n WHERE n.starts IS NOT NULL AND n.span > 600000000 GROUP BY 1, 2
            ), seats AS (
                INSERT INTO rota.slots (owner, key, number, job, fence, since)
                SELECT w.owner, w.key, free.number, w.job, w.fence + 1, moment FROM winner w
                CROSS JOIN LATERAL (
                    SELECT n AS number
                    FROM generate_series(1, w.seat + (SELECT count(*) FROM rota.slots s WHERE s.owner = w.owner AND s.key = w.key)) AS n
                    WHERE NOT EXISTS (SELECT FROM rota.slots s WHERE s.owner = w.owner AND s.key = w.key AND s.number = n)
                    OFFSET w.seat - 1 LIMIT 1
                ) free   -- of a key without a bound too: a person may set one, or remove a rate, while it is held
            ), tokens AS (
                -- Kept for the longest window that any job is known to have.
                INSERT INTO rota.starts (owner, key, job, fence, at, late, until)
                SELECT w.owner, w.key, w.job, w.fence + 1, moment, w.slack, moment + w.slack + greatest(w.span, 600000000,
                       (SELECT l.span FROM looks_back l WHERE l.owner = w.owner AND l.key = w.key),
                       (SELECT t.until - t.at - t.late FROM rota.starts t WHERE t.owner = w.owner AND t.key = w.key ORDER BY t.at DESC LIMIT 1))
                FROM winner w WHERE w.starts IS NOT NULL
            ), kept AS (
                UPDATE rota.starts s SET until = s.at + s.late + l.span FROM looks_back l
                WHERE s.owner = l.owner AND s.key = l.key AND s.until < s.at + s.late + l.span
            ), served AS (
                DELETE FROM rota.wanted d WHERE d.job IN (SELECT w.job FROM winner w GROUP BY w.job HAVING count(*) > 1)
            ), admitted AS (
            UPDATE rota.jobs j
            SET state = 'running', fence = j.fence + 1, node = admit_claim.incarnation, cancel = NULL, reason = NULL, claimed_at = moment,
                started_at = moment, tries = j.tries + 1, expires_at = NULL, held_by = NULL,
                special = j.special OR j.id IN (SELECT w.job FROM winner w)   -- it holds the quota of its user
            FROM lucky WHERE j.id = lucky.job
            RETURNING {jobs.claimed j; job_id = j.id::text AS job_id; number = j.tries AS number; slack = lucky.slack;
                       flow = rota.flow_of(j.task, j.requirements);
                       state = CASE WHEN j.fence > 1 THEN rota.saved_state(j.id) END}
            ), told AS (   -- if somebody watches
                INSERT INTO rota.outbox (at, kind, owner, subject, data)
                SELECT moment, 'job.started', a.owner, '',
                       json_build_object('queue', a.queue, 'task', a.task, 'attempt', a.number, 'node', n.id, 'jobs', json_agg(a.job_id))::text
                FROM admitted a JOIN rota.watches w ON w.owner = a.owner AND w.until > moment
                JOIN rota.nodes n ON n.incarnation = admit_claim.incarnation
                GROUP BY a.owner, a.queue, a.task, a.number, n.id
            )
            SELECT * FROM admitted;
            EXIT WHEN NOT FOUND;
            turn := ARRAY(SELECT l.id FROM (SELECT j.id, j.state FROM rota.jobs j WHERE j.id = ANY (turn) OFFSET 0) l WHERE l.state = 'ready');
        END LOOP;
        IF number > cardinality(alone_ids) THEN
            rest := coalesce(turn, '{}');
            EXIT;
        END IF;
        rest := ARRAY(SELECT l.id FROM (SELECT j.id, j.state FROM rota.jobs j WHERE j.id = ANY (rest) OFFSET 0) l WHERE l.state = 'ready');

        -- A job that wants to be alone closes a gate for itself and waits until the others have ended. Its keys come first: while
        -- it waits for one it must not keep the others from running.
        CONTINUE WHEN alone_ids[number] <> ALL (rest) OR rota.is_alone(alone_ids[number])
                      OR EXISTS (SELECT FROM rota.needs(rest, moment) n WHERE n.job = alone_ids[number] AND n.room <= 0);
        INSERT INTO rota.gates (id, owner, task, task_like, queue, by_user, label, effect, reason, author, created_at, job)
        SELECT gen_random_uuid(), j.owner, alone #>> '{match,task}', alone ->> 'like', alone #>> '{match,queue}',
               alone #>> '{match,user}', alone #>> '{match,label}', 'pause', 'job ' || j.id || ' is to run alone', j.owner, moment, j.id
        FROM (SELECT w.id, w.owner, w.requirements::jsonb -> 'alone' AS alone FROM rota.jobs w WHERE w.id = alone_ids[number]) j
        WHERE NOT EXISTS (SELECT FROM rota.gates g WHERE g.job = j.id AND g.opened_at IS NULL);
        UPDATE rota.jobs j SET state = 'held', held_by = 'a:' || j.id, reason = 'waits until it is alone' WHERE j.id = alone_ids[number];
        -- The gate holds jobs that rank behind it. Two must not wait for each other: gates of such jobs open.
        WITH held AS (
            UPDATE rota.jobs j SET state = 'held', held_by = 'g:' || g.id, reason = g.reason FROM rota.gates g, rota.jobs own
            WHERE own.id = alone_ids[number] AND g.job = own.id AND g.opened_at IS NULL AND j.id = ANY (rest) AND (j.rank, j.id) > (own.rank, own.id)
              AND rota.fits(g, j.owner, j.task, j.queue, j.requirements) RETURNING j.id
        )
        SELECT array_agg(held.id) INTO barred FROM held;
        UPDATE rota.gates g SET opened_at = moment WHERE g.job = ANY (barred) AND g.opened_at IS NULL;
        rest := ARRAY(SELECT r.id FROM unnest(rest) AS r(id) WHERE r.id <> alone_ids[number] AND r.id <> ALL (coalesce(barred, '{}')));
    END LOOP;

    IF rest = '{}' THEN
        RETURN;
    END IF;

    -- The others join the line of a key that is full.
    WITH need AS MATERIALIZED (
        SELECT * FROM rota.needs(rest, moment)
    ), full_ones AS MATERIALIZED (
        SELECT DISTINCT ON (n.job) n.job, n.owner, n.key, n.policy FROM need n WHERE n.room <= 0
        ORDER BY n.job, n.key = ' running', n.key COLLATE "C"   -- the quota last: see `model.admission`
    ), held AS (
        UPDATE rota.jobs j SET state = 'held', held_by = 'k:' || f.owner || ':' || f.key, reason = rota.waits_for(f.key), special = true
        FROM full_ones f WHERE j.id = f.job AND f.policy <> 'skip'
        RETURNING j.id, least(j.rank, 4600000000000000000) + 9 * least(coalesce(j.own_step, step), 500000000000000000) AS latest, j.requirements
    ), lets_go AS (
        UPDATE rota.gates g SET opened_at = moment FROM held WHERE g.job = held.id AND g.opened_at IS NULL
    ), several AS (
        INSERT INTO rota.wanted (owner, key, job, latest)
        SELECT n.owner, n.key, n.job, held.latest FROM held JOIN need n ON n.job = held.id
        WHERE jsonb_array_length(held.requirements::jsonb -> 'keys') > 1 AND n.key <> ' running'
        ON CONFLICT (job, key) DO UPDATE SET latest = excluded.latest
    )
    SELECT array_agg(f.job) FILTER (WHERE f.policy = 'skip') AS skip, array_agg('key ' || f.key || ' was taken') FILTER (WHERE f.policy = 'skip') AS why,
           array_agg(f.job) FILTER (WHERE f.policy = 'replace') AS replacing
    INTO one FROM full_ones f;
    IF one.skip IS NOT NULL THEN
        PERFORM rota.put_away(one.skip, 'skipped', one.why, moment);
    END IF;
    IF one.replacing IS NOT NULL THEN
        PERFORM rota.replace_holders(j.owner, substr(j.held_by, length(j.owner) + 4), j.id, moment)
        FROM rota.jobs j WHERE j.id = ANY (one.replacing) AND j.state = 'held' ORDER BY j.rank, j.id;
    END IF;
END $$;

-- A newer job replaces older ones with the same key: waiting jobs end, running jobs are asked to stop.
CREATE OR REPLACE FUNCTION rota.replace_holders(by text, name text, newer uuid, moment bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    older uuid[];
    why   text := 'replaced by job ' || newer;
BEGIN
    SELECT coalesce(array_agg(o.id), '{}') INTO older FROM (
        SELECT j.id FROM rota.jobs j WHERE j.held_by = 'k:' || by || ':' || name AND j.state IN ('held', 'ready')
          AND (j.created_at, j.id) < (SELECT n.created_at, n.id FROM rota.jobs n WHERE n.id = newer)
        ORDER BY j.id FOR UPDATE SKIP LOCKED) o;
    PERFORM rota.put_away(older, 'cancelled', array_fill(why, ARRAY[cardinality(older)]), moment);
    UPDATE rota.jobs j SET cancel = coalesce(j.cancel, why)
    FROM rota.slots s, rota.jobs n
    WHERE s.owner = by AND s.key = name AND j.id = s.job AND j.state = 'running'
      AND n.id = newer AND (j.created_at, j.id) < (n.created_at, n.id);
END $$;
