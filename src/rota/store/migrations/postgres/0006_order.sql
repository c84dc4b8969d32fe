-- Rates by the window of whoever asks, a bound on the wait for several keys, and requirements that can always be read.

-- A start counts for each job that asks by that job's own window: what is kept of it is when it was claimed, and how long
-- after that it may really have happened. `until`: how long it is kept; ten minutes at least, and as long as anyone looks back.
ALTER TABLE rota.starts ADD COLUMN late bigint NOT NULL DEFAULT 500000;
CREATE INDEX starts_at ON rota.starts (owner, key, at);
DROP INDEX rota.starts_key;
UPDATE rota.starts SET until = greatest(until, at + late + 600000000);

-- Jobs that wait for several keys, a row for each. In whatever line such a job stands: whoever ranks more than nine steps of
-- ageing behind it (`latest`) must leave it room. Without that, two busy keys that become free in turn would never be free for it.
CREATE TABLE rota.wanted (
    owner  text   NOT NULL,
    key    text   NOT NULL,
    job    uuid   NOT NULL,
    latest bigint NOT NULL,
    PRIMARY KEY (job, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX wanted_key ON rota.wanted (owner, key, latest);

-- Anyone with access to the tables may write requirements. Those that can't be read would stop every claim and every end that meets
-- them, and a name that stands there twice would wait for itself: so they are refused where they are written.
CREATE FUNCTION rota.check_requirements() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    given jsonb := NEW.requirements::jsonb;
    keys  jsonb := coalesce(given -> 'keys', '[]');
    alone jsonb := given -> 'alone';
BEGIN
    IF jsonb_typeof(given) <> 'object' OR jsonb_typeof(keys) <> 'array' OR alone IS NOT NULL AND (
           jsonb_typeof(alone) <> 'object' OR coalesce(alone ->> 'drain', '') !~ '^[0-9]{1,17}$'
           OR coalesce(alone ->> 'cancel', 'false') NOT IN ('true', 'false')) THEN
        RAISE EXCEPTION 'requirements %: expected labels, keys and alone', left(NEW.requirements, 200) USING ERRCODE = 'check_violation';
    END IF;
    IF (SELECT count(*) <> count(DISTINCT k ->> 0) OR NOT bool_and(coalesce(
            jsonb_typeof(k) = 'array' AND jsonb_typeof(k -> 0) = 'string' AND coalesce(k ->> 1, '1') ~ '^[1-9][0-9]{0,5}$'
            AND coalesce(k #>> '{2,0}', '1') ~ '^[1-9][0-9]{0,5}$' AND coalesce(k #>> '{2,1}', '1') ~ '^[1-9][0-9]{0,13}$'
            AND (k #>> '{2,0}' IS NULL) = (k #>> '{2,1}' IS NULL)
            AND coalesce(k ->> 3, 'wait') IN ('wait', 'skip', 'replace'), false))
        FROM jsonb_array_elements(keys) AS one(k)) THEN
        RAISE EXCEPTION 'keys %: expected [name, concurrency, [starts, window], policy], each name once', left(keys::text, 200)
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER traits_written BEFORE INSERT OR UPDATE OF requirements ON rota.jobs
    FOR EACH ROW WHEN (NEW.requirements IS NOT NULL) EXECUTE FUNCTION rota.check_requirements();

-- The keys that these jobs need, one row each (a job that needs none has one without), with how much room there is: how many
-- more may hold the key, and start now, by the window of whoever asks; NULL: any number. One place is left to the one that
-- waits for several keys and has waited longest: to one that stands in line, or is just being looked at. Nobody may ever take one
-- that was let go, and the key would lie idle.
CREATE OR REPLACE FUNCTION rota.needs(ids uuid[], moment bigint)
RETURNS TABLE (job uuid, owner text, rank bigint, fence bigint, key text, concurrency integer, starts integer, span bigint,
               slack bigint, policy text, room bigint)
LANGUAGE sql STABLE AS $$
    SELECT j.id, j.owner, j.rank, j.fence, k.key, k.concurrency, k.starts, k.span,
           least(k.slack << least(j.interruptions, 6)::integer, 2000000), k.policy,   -- whoever came too late gets more time
           least(k.concurrency - (SELECT count(*) FROM rota.slots s
                                  WHERE k.concurrency IS NOT NULL AND s.owner = j.owner AND s.key = k.key),
                 k.starts - (SELECT count(*) FROM rota.starts t
                             WHERE k.starts IS NOT NULL AND t.owner = j.owner AND t.key = k.key
                               AND t.at > moment - k.span - 2000000 AND t.at + t.late + k.span > moment))
           - (SELECT count(*) FROM (
                 SELECT FROM rota.wanted w WHERE w.owner = j.owner AND w.key = k.key AND w.latest < j.rank
                   AND EXISTS (SELECT FROM rota.jobs h WHERE h.id = w.job AND (h.state = 'held' AND h.held_by LIKE 'k:%' OR h.id = ANY (ids)) OFFSET 0)
                 ORDER BY w.latest LIMIT 1) one)
    FROM rota.jobs j LEFT JOIN LATERAL rota.keys_of(j.owner, j.requirements) k ON true
    WHERE j.id = ANY (ids) $$;

DROP FUNCTION rota.pass(uuid[], text, bigint, boolean);
-- Looks at ready jobs that a claim must not simply take: those that a gate fits, and those that need keys. Moves aside what
-- may not run and claims the rest (`only_gates`: looks at gates, and claims nothing). One caller at a time: so what it counts is so.
CREATE FUNCTION rota.pass(ids uuid[], incarnation text, given bigint, only_gates boolean, step bigint)
RETURNS TABLE (id text, fence bigint, owner text, queue text, kind text, task text, priority smallint, rank bigint, number bigint,
               failures bigint, started_at bigint, spec text, args text, retry text, timeout bigint, parents integer, slack bigint)
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
        CONTINUE WHEN rota.is_alone(one.id, moment);
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
        RETURNING j.id::text, j.fence, j.owner, j.queue, j.kind, j.task, j.priority, j.rank, j.tries, j.failures, j.started_at,
                  j.spec, j.args, j.retry, j.timeout, j.parents, lucky.slack;
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

-- Lets those go on that wait for keys: of the keys on the list, or (all) of every key that somebody waits for. As many as there
-- is room for, less those that are on their way already; a look at all does not count these: perhaps nobody takes them.
CREATE OR REPLACE FUNCTION rota.hand_on(every boolean, given bigint, most integer,
                             OUT moved bigint, OUT next_at bigint, OUT more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := rota.clock(given);
    lines  text[];
BEGIN
    IF every THEN
        WITH RECURSIVE known(line) AS (
            (SELECT j.held_by FROM rota.jobs j WHERE j.held_by >= 'k:' AND j.held_by < 'k;' ORDER BY j.held_by LIMIT 1)
            UNION ALL
            SELECT (SELECT j.held_by FROM rota.jobs j WHERE j.held_by > known.line AND j.held_by < 'k;' ORDER BY j.held_by LIMIT 1)
            FROM known WHERE known.line IS NOT NULL
        )
        SELECT array_agg(k.line) INTO lines FROM known k WHERE k.line IS NOT NULL;
    ELSE
        WITH taken AS (
            DELETE FROM rota.freed WHERE number IN (SELECT f.number FROM rota.freed f ORDER BY 1 LIMIT 1000 FOR UPDATE SKIP LOCKED)
            RETURNING held_by
        )
        SELECT array_agg(DISTINCT held_by) INTO lines FROM taken;
    END IF;
    WITH first AS MATERIALIZED (
        SELECT wanted.line, head.owner, head.rank, k.*
        FROM unnest(lines) AS wanted(line)
        CROSS JOIN LATERAL (SELECT j.owner, j.requirements, j.rank FROM rota.jobs j WHERE j.held_by = wanted.line AND j.state = 'held'
                            ORDER BY j.rank, j.id LIMIT 1) head
        CROSS JOIN LATERAL rota.keys_of(head.owner, head.requirements) k WHERE 'k:' || head.owner || ':' || k.key = wanted.line
    ), room AS MATERIALIZED (
        SELECT f.line, f.owner, f.key, f.starts, f.span,
               least(f.concurrency - (SELECT count(*) FROM rota.slots s
                                      WHERE f.concurrency IS NOT NULL AND s.owner = f.owner AND s.key = f.key),
                     f.starts - (SELECT count(*) FROM rota.starts t
                                 WHERE f.starts IS NOT NULL AND t.owner = f.owner AND t.key = f.key
                                   AND t.at > moment - f.span - 2000000 AND t.at + t.late + f.span > moment))
               - (SELECT count(*) FROM (
                     SELECT FROM rota.wanted w WHERE w.owner = f.owner AND w.key = f.key AND w.latest < f.rank
                       AND EXISTS (SELECT FROM rota.jobs h WHERE h.id = w.job AND h.state = 'held' AND h.held_by LIKE 'k:%' OFFSET 0)
                     ORDER BY w.latest LIMIT 1) one)
               - CASE WHEN every THEN 0 ELSE (SELECT count(*) FROM rota.jobs j WHERE j.held_by = f.line AND j.state = 'ready') END AS room
        FROM first f
    ), next AS MATERIALIZED (
        SELECT n.id FROM room r
        CROSS JOIN LATERAL (SELECT j.id FROM rota.jobs j WHERE j.held_by = r.line AND j.state = 'held' ORDER BY j.rank, j.id
                            LIMIT least(coalesce(r.room, most), most) FOR UPDATE SKIP LOCKED) n
        WHERE r.room IS NULL OR r.room > 0
    ), going AS (
        UPDATE rota.jobs j SET state = 'ready', reason = NULL FROM next WHERE j.id = next.id RETURNING 1
    ), kept AS (
        -- As long as whoever waits looks back.
        UPDATE rota.starts s SET until = s.at + s.late + r.span FROM room r
        WHERE r.starts IS NOT NULL AND r.span > 600000000 AND s.owner = r.owner AND s.key = r.key AND s.until < s.at + s.late + r.span
    )
    SELECT (SELECT count(*) FROM going), coalesce((SELECT count(*) >= most FROM next), false) AND EXISTS (SELECT FROM room WHERE room IS NULL),
           (SELECT min((SELECT t.at + t.late + r.span FROM rota.starts t WHERE t.owner = r.owner AND t.key = r.key
                          AND t.at > moment - r.span - 2000000 AND t.at + t.late + r.span > moment
                        ORDER BY t.at + t.late DESC OFFSET r.starts - 1 LIMIT 1))
            FROM room r WHERE r.room <= 0 AND r.starts IS NOT NULL)
    INTO moved, more, next_at;
    more := more OR (NOT every AND EXISTS (SELECT FROM rota.freed));
END $$;

-- Holds and drops what closed gates fit, in the order of ids; lets go, lowest rank first, what opened ones held.
CREATE OR REPLACE FUNCTION rota.sweep_gates(given bigint, most integer, OUT moved bigint, OUT next_at bigint, OUT more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := rota.clock(given);
    gate   rota.gates;
    batch  uuid[];
    hits   uuid[];
    n      bigint;
BEGIN
    -- A claim may have held a job by a gate that was opened and gone before the claim was committed.
    WITH RECURSIVE known(line) AS (
        (SELECT j.held_by FROM rota.jobs j WHERE j.held_by >= 'g:' AND j.held_by < 'g;' ORDER BY j.held_by LIMIT 1)
        UNION ALL
        SELECT (SELECT j.held_by FROM rota.jobs j WHERE j.held_by > known.line AND j.held_by < 'g;' ORDER BY j.held_by LIMIT 1)
        FROM known WHERE known.line IS NOT NULL
    ), next AS MATERIALIZED (
        SELECT one.id FROM known
        CROSS JOIN LATERAL (SELECT j.id FROM rota.jobs j WHERE j.held_by = known.line ORDER BY j.rank, j.id LIMIT most
                            FOR UPDATE SKIP LOCKED) one
        WHERE known.line IS NOT NULL AND NOT EXISTS (SELECT FROM rota.gates g WHERE 'g:' || g.id = known.line)
    ), going AS (
        UPDATE rota.jobs j SET state = 'ready', held_by = NULL, reason = NULL FROM next WHERE j.id = next.id RETURNING 1
    )
    SELECT count(*), count(*) >= most INTO moved, more FROM going;
    FOR gate IN SELECT * FROM rota.gates g ORDER BY g.created_at, g.id FOR UPDATE SKIP LOCKED LOOP
        IF gate.opened_at IS NULL AND (gate.until IS NULL OR gate.until > moment) THEN
            next_at := least(next_at, gate.until);
            SELECT array_agg(b.id ORDER BY b.id) INTO batch FROM (
                SELECT j.id FROM rota.jobs j WHERE j.id > gate.swept ORDER BY j.id LIMIT most) b;
            CONTINUE WHEN batch IS NULL;
            SELECT coalesce(array_agg(h.id), '{}') INTO hits FROM (
                SELECT j.id FROM rota.jobs j
                WHERE j.id = ANY (batch) AND j.id IS DISTINCT FROM gate.job AND (j.state = 'ready' OR gate.effect = 'drop' AND j.node IS NULL)
                  AND rota.fits(gate, j.owner, j.task, j.queue, j.requirements)
                ORDER BY j.id FOR UPDATE SKIP LOCKED) h;
            IF gate.effect = 'drop' THEN
                n := rota.put_away(hits, 'dropped', array_fill(gate.reason, ARRAY[cardinality(hits)]), moment);
            ELSE
                UPDATE rota.jobs j SET state = 'held', held_by = 'g:' || gate.id, reason = gate.reason WHERE j.id = ANY (hits);
                UPDATE rota.gates g SET opened_at = moment WHERE g.job = ANY (hits) AND g.opened_at IS NULL;   -- meanwhile the others may run
                n := cardinality(hits);
            END IF;
            UPDATE rota.gates g SET swept = batch[cardinality(batch)], dropped = dropped + CASE WHEN gate.effect = 'drop' THEN n ELSE 0 END
            WHERE g.id = gate.id;
            more := more OR cardinality(batch) = most;
        ELSE
            WITH next AS (
                SELECT j.id FROM rota.jobs j WHERE j.held_by = 'g:' || gate.id
                ORDER BY j.rank, j.id LIMIT most FOR UPDATE SKIP LOCKED
            ), going AS (
                UPDATE rota.jobs j SET state = 'ready', held_by = NULL, reason = NULL FROM next WHERE j.id = next.id RETURNING 1
            )
            SELECT count(*) INTO n FROM going;
            IF n < most AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.held_by = 'g:' || gate.id) THEN
                DELETE FROM rota.gates g WHERE g.id = gate.id;
            ELSE
                more := true;
            END IF;
        END IF;
        moved := moved + n;
    END LOOP;
END $$;

-- Most end by the hundred: all of a statement at once (a fifth of the time that it takes one by one).
CREATE OR REPLACE FUNCTION rota.free_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM old_jobs WHERE special) THEN
        WITH gone AS (
            DELETE FROM rota.slots s USING old_jobs o WHERE o.special AND s.job = o.id RETURNING s.owner, s.key
        )
        INSERT INTO rota.freed (held_by) SELECT 'k:' || owner || ':' || key FROM gone;
        IF EXISTS (SELECT FROM old_jobs WHERE special AND state <> 'running') THEN   -- whoever ran has had his keys
            DELETE FROM rota.wanted w USING old_jobs o WHERE o.special AND o.state <> 'running' AND w.job = o.id;
        END IF;
        UPDATE rota.gates g SET opened_at = rota.clock(NULL) FROM old_jobs o WHERE o.special AND g.job = o.id AND g.opened_at IS NULL;
    END IF;
    RETURN NULL;
END $$;

-- What an order of a task brings along by its task alone.
CREATE OR REPLACE FUNCTION rota.requirements_of(name text, args jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    info jsonb;
    full_ text;
    keys jsonb;
    requirements jsonb;
BEGIN
    SELECT t.info::jsonb INTO info FROM rota.tasks t WHERE t.name = requirements_of.name;
    IF info ->> 'alone' IS NOT NULL THEN
        RAISE EXCEPTION 'task %: it runs alone, and such jobs are ordered by way of the client', quote_literal(name)
            USING ERRCODE = 'feature_not_supported';
    END IF;
    full_ := coalesce(info ->> 'full', 'wait');
    -- Of the same name twice the stricter holds, as in `model.limits.keys`.
    SELECT jsonb_agg(jsonb_build_array(m.key, m.concurrency, m.rate, full_) ORDER BY m.key COLLATE "C") INTO keys FROM (
        SELECT k.key, min((k.concurrency #>> '{}')::integer) AS concurrency,
               (array_agg(k.rate ORDER BY (k.rate ->> 0)::numeric / (k.rate ->> 1)::numeric, (k.rate ->> 0)::integer)
                FILTER (WHERE jsonb_typeof(k.rate) = 'array'))[1] AS rate FROM (
        SELECT rota.fill(info ->> 'exclusive', args) AS key, '1'::jsonb AS concurrency, 'null'::jsonb AS rate WHERE info ->> 'exclusive' IS NOT NULL
        UNION ALL
        SELECT rota.fill(l ->> 0, args), coalesce(l -> 1, 'null'), coalesce(l -> 2, 'null') FROM jsonb_array_elements(info -> 'limits') AS one(l)
        UNION ALL
        SELECT 'task:' || name, 'null', info -> 'rate' WHERE jsonb_typeof(info -> 'rate') = 'array') k GROUP BY k.key) m;
    requirements := jsonb_strip_nulls(jsonb_build_object('labels', nullif(info -> 'labels', '[]'), 'keys', keys));
    IF requirements = '{}' THEN
        RETURN requirements;
    END IF;
    RETURN jsonb_build_object('requirements', requirements::text, 'special', keys IS NOT NULL)
           || CASE WHEN keys IS NOT NULL AND full_ = 'wait' THEN jsonb_build_object('line', keys #>> '{0,0}') ELSE '{}' END;
END $$;
