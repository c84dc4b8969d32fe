-- Looks at ready jobs that a claim must not simply take: those that a gate fits, and those that need keys. Moves aside what
-- may not run and claims the rest (`only_gates`: looks at gates, and claims nothing). One caller at a time: so what it counts is so.
CREATE OR REPLACE FUNCTION rota.pass(ids uuid[], incarnation text, given bigint, only_gates boolean, step bigint)
RETURNS TABLE ({jobs.claimed::})
LANGUAGE plpgsql SET enable_hashjoin = on AS $$
#variable_conflict use_column
DECLARE
    moment bigint;
    rest   uuid[];
    one    record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota' || ' admission', 0));
    -- Not the time at which the statement began: it may have waited, and rates count from the start.
    moment := coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    PERFORM FROM rota.nodes n WHERE n.incarnation = pass.incarnation AND n.state IN ('live', 'stopping') FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- (The state is asked outside: else the server may walk along all that is ready, which has the ids in its index too.)
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

    -- Who wants to be alone closes a gate for itself and waits until the others have ended.
    FOR one IN
        SELECT j.id, j.owner, j.requirements::jsonb -> 'alone' AS alone FROM rota.jobs j
        WHERE j.id = ANY (rest) AND j.requirements::jsonb ? 'alone' ORDER BY j.rank, j.id
    LOOP
        CONTINUE WHEN rota.is_alone(one.id);
        -- First its keys: while it waits for these it must not keep the others from running.
        CONTINUE WHEN EXISTS (SELECT FROM rota.needs(ARRAY[one.id], moment) n WHERE n.room <= 0);
        rest := array_remove(rest, one.id);
        -- One of those before it may have closed a gate over it: two must not wait for each other.
        UPDATE rota.jobs j SET state = 'held', held_by = 'g:' || g.id, reason = g.reason FROM rota.gates g
        WHERE j.id = one.id AND g.job <> one.id AND g.opened_at IS NULL AND rota.fits(g, j.owner, j.task, j.queue, j.requirements);
        CONTINUE WHEN FOUND;
        INSERT INTO rota.gates (id, owner, task, task_like, queue, by_user, label, effect, reason, author, created_at, job)
        SELECT gen_random_uuid(), one.owner, one.alone #>> '{match,task}', one.alone ->> 'like', one.alone #>> '{match,queue}',
               one.alone #>> '{match,user}', one.alone #>> '{match,label}', 'pause', 'job ' || one.id || ' is to run alone',
               one.owner, moment, one.id
        WHERE NOT EXISTS (SELECT FROM rota.gates g WHERE g.job = one.id AND g.opened_at IS NULL);
        UPDATE rota.jobs j SET state = 'held', held_by = 'a:' || one.id, reason = 'waits until it is alone' WHERE j.id = one.id;
    END LOOP;

    -- Whoever comes first in all of its lines gets in; a second look is for those who stood behind one that did not.
    LOOP
        RETURN QUERY WITH need AS MATERIALIZED (
            SELECT * FROM rota.needs(rest, moment)
        ), placed AS MATERIALIZED (
            SELECT *, row_number() OVER (PARTITION BY owner, key ORDER BY rank, job) AS place
            FROM need WHERE job NOT IN (SELECT n.job FROM need n WHERE n.room <= 0)
        ), lucky AS MATERIALIZED (
            SELECT job, min(CASE WHEN starts IS NOT NULL THEN slack END) AS slack
            FROM placed GROUP BY job HAVING bool_and(room IS NULL OR place <= room)
        ), winner AS MATERIALIZED (
            SELECT p.*, row_number() OVER (PARTITION BY p.owner, p.key ORDER BY p.place) AS seat FROM placed p
            WHERE p.job IN (SELECT l.job FROM lucky l) AND p.key IS NOT NULL
        ), seats AS (
            INSERT INTO rota.slots (owner, key, number, job, fence, since)
            SELECT w.owner, w.key, free.number, w.job, w.fence + 1, moment FROM winner w
            CROSS JOIN LATERAL (
                SELECT n AS number
                FROM generate_series(1, w.seat + (SELECT count(*) FROM rota.slots s WHERE s.owner = w.owner AND s.key = w.key)) AS n
                WHERE NOT EXISTS (SELECT FROM rota.slots s WHERE s.owner = w.owner AND s.key = w.key AND s.number = n)
                OFFSET w.seat - 1 LIMIT 1
            ) free   -- also of a key without a bound: a person may set one, or take a rate away, while it is held
        ), tokens AS (
            -- Kept for as long as anyone is known to look back.
            INSERT INTO rota.starts (owner, key, job, fence, at, late, until)
            SELECT w.owner, w.key, w.job, w.fence + 1, moment, w.slack, moment + w.slack + greatest(w.span, 600000000,
                   (SELECT t.until - t.at - t.late FROM rota.starts t WHERE t.owner = w.owner AND t.key = w.key ORDER BY t.at DESC LIMIT 1))
            FROM winner w WHERE w.starts IS NOT NULL
        ), looks_back AS MATERIALIZED (
            SELECT n.owner, n.key, max(n.span) AS span FROM need n WHERE n.starts IS NOT NULL AND n.span > 600000000 GROUP BY 1, 2
        ), kept AS (
            UPDATE rota.starts s SET until = s.at + s.late + l.span FROM looks_back l
            WHERE s.owner = l.owner AND s.key = l.key AND s.until < s.at + s.late + l.span
        ), served AS (
            DELETE FROM rota.wanted d WHERE d.job IN (SELECT w.job FROM winner w GROUP BY w.job HAVING count(*) > 1)
        )
        UPDATE rota.jobs j
        SET state = 'running', fence = j.fence + 1, node = pass.incarnation, cancel = NULL, reason = NULL, claimed_at = moment,
            started_at = moment, tries = j.tries + 1, expires_at = NULL, held_by = NULL
        FROM lucky WHERE j.id = lucky.job
        RETURNING {jobs.claimed j; job_id = j.id::text; number = j.tries; slack = lucky.slack;
                   state = CASE WHEN j.fence > 1 THEN rota.saved_state(j.id) END};
        EXIT WHEN NOT FOUND;
        rest := ARRAY(SELECT l.id FROM (SELECT j.id, j.state FROM rota.jobs j WHERE j.id = ANY (rest) OFFSET 0) l WHERE l.state = 'ready');
        EXIT WHEN rest = '{}';
    END LOOP;

    -- The others join the line of a key that is full.
    WITH need AS MATERIALIZED (
        SELECT * FROM rota.needs(rest, moment)
    ), full_ones AS MATERIALIZED (
        SELECT DISTINCT ON (n.job) n.job, n.owner, n.key, n.policy FROM need n WHERE n.room <= 0 ORDER BY n.job, n.key
    ), held AS (
        UPDATE rota.jobs j SET state = 'held', held_by = 'k:' || f.owner || ':' || f.key, reason = 'waits for key ' || f.key
        FROM full_ones f WHERE j.id = f.job AND f.policy <> 'skip'
        RETURNING j.id, least(j.rank, 4600000000000000000) + 9 * least(coalesce(j.own_step, step), 500000000000000000) AS latest, j.requirements
    ), lets_go AS (
        UPDATE rota.gates g SET opened_at = moment FROM held WHERE g.job = held.id AND g.opened_at IS NULL
    ), several AS (
        INSERT INTO rota.wanted (owner, key, job, latest)
        SELECT n.owner, n.key, n.job, held.latest FROM held JOIN need n ON n.job = held.id
        WHERE jsonb_array_length(held.requirements::jsonb -> 'keys') > 1 AND (n.concurrency IS NOT NULL OR n.starts IS NOT NULL)
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
