-- Who may run: gates, limits, queues.


CREATE TABLE rota.gates (
    id         uuid   NOT NULL PRIMARY KEY,
    owner      text,                              -- whose jobs; NULL: everyone's
    task       text,                              -- a glob, and the same for LIKE
    task_like  text,
    queue      text,
    by_user    text,
    label      text,
    effect     text   NOT NULL CHECK (effect IN ('pause', 'drop')),
    reason     text   NOT NULL,
    author     text   NOT NULL,
    created_at bigint NOT NULL,
    until      bigint,
    job        uuid,                              -- that runs alone, and closed it for itself
    opened_at  bigint,                            -- it goes when what it held has gone on
    swept      uuid   NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',   -- jobs up to here were looked at
    dropped    bigint NOT NULL DEFAULT 0
);
CREATE INDEX gates_job ON rota.gates (job) WHERE job IS NOT NULL;

-- What a person has set for a key.
CREATE TABLE rota.limits (
    owner       text    NOT NULL,
    key         text    NOT NULL,
    concurrency integer CHECK (concurrency > 0),
    starts      integer CHECK (starts > 0),
    span        bigint  CHECK (span > 0),
    PRIMARY KEY (owner, key)
);

-- Who holds a key: numbered, so that no two can hold the same. They go with the attempt, whatever ends it.
CREATE TABLE rota.slots (
    owner  text    NOT NULL,
    key    text    NOT NULL,
    number integer NOT NULL,
    job    uuid    NOT NULL,
    fence  bigint  NOT NULL,
    since  bigint  NOT NULL,
    PRIMARY KEY (owner, key, number)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX slots_job ON rota.slots (job);

-- Tokens of rates that are used up until some instant.
CREATE TABLE rota.starts (
    owner text   NOT NULL,
    key   text   NOT NULL,
    job   uuid   NOT NULL,
    fence bigint NOT NULL,
    at    bigint NOT NULL,
    until bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX starts_key   ON rota.starts (owner, key, until);
CREATE INDEX starts_until ON rota.starts (until);

-- Keys to be looked at: a slot became free, or someone has joined the line. Like `settling` for parents.
CREATE TABLE rota.freed (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, held_by text NOT NULL)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE FUNCTION rota.frees_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM rota.slots WHERE job = OLD.id RETURNING owner, key
    )
    INSERT INTO rota.freed (held_by) SELECT 'k:' || owner || ':' || key FROM gone;
    UPDATE rota.gates SET opened_at = rota.clock(NULL) WHERE job = OLD.id AND opened_at IS NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER special_job_stopped AFTER UPDATE OF state ON rota.jobs
    FOR EACH ROW WHEN (OLD.special AND OLD.state = 'running' AND NEW.state <> 'running') EXECUTE FUNCTION rota.frees_keys();

-- Most end by the hundred: all of a statement at once (a fifth of the time that it takes one by one).
CREATE FUNCTION rota.free_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM old_jobs WHERE special) THEN
        WITH gone AS (
            DELETE FROM rota.slots s USING old_jobs o WHERE o.special AND s.job = o.id RETURNING s.owner, s.key
        )
        INSERT INTO rota.freed (held_by) SELECT 'k:' || owner || ':' || key FROM gone;
        UPDATE rota.gates g SET opened_at = rota.clock(NULL) FROM old_jobs o WHERE o.special AND g.job = o.id AND g.opened_at IS NULL;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER special_jobs_ended AFTER DELETE ON rota.jobs
    REFERENCING OLD TABLE AS old_jobs FOR EACH STATEMENT EXECUTE FUNCTION rota.free_keys();

CREATE TABLE rota.queues (
    name       text     NOT NULL PRIMARY KEY,
    paused_at  bigint,
    paused_by  text,
    note       text     NOT NULL DEFAULT '',
    feedback   boolean  NOT NULL DEFAULT false,
    quantum    bigint   NOT NULL DEFAULT 10000000,
    levels     smallint NOT NULL DEFAULT 5 CHECK (levels BETWEEN 1 AND 5),
    boost      bigint   NOT NULL DEFAULT 60000000,
    boosted_at bigint   NOT NULL DEFAULT 0,
    step       bigint,                            -- of ageing; NULL: as everywhere
    stepped_at bigint   NOT NULL DEFAULT 0
);

-- Ranks ready jobs of these queues by the steps that count now. Jobs are ordered with the step that counts everywhere; a claim
-- that meets one in a queue with a step of its own has it ranked anew, together with those behind it.
-- At most `most` of each lane are ranked anew, at most `reach` are looked at (NULL: all).
CREATE FUNCTION rota.rank_anew(names text[], usual bigint, most integer, reach integer) RETURNS bigint LANGUAGE sql AS $$
    WITH wrong AS MATERIALIZED (
        SELECT one.id, q.step FROM unnest(names) AS wanted(name) LEFT JOIN rota.queues q ON q.name = wanted.name
        CROSS JOIN LATERAL (
            SELECT j.id FROM unnest('{function,command}'::text[]) AS kinds(kind)
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

-- Flows that have used slots since the last boost of their queue. Their level counts like a priority: jobs of a flow are put back
-- by it when a claim meets them, and put forward again at the boost.
CREATE TABLE rota.flows (
    queue text     NOT NULL,
    flow  text     NOT NULL,
    used  bigint   NOT NULL,
    level smallint NOT NULL,
    PRIMARY KEY (queue, flow)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX jobs_put_back ON rota.jobs (queue, owner, task, level) WHERE level > 0;
CREATE INDEX jobs_own_step ON rota.jobs (queue, own_step) WHERE own_step IS NOT NULL;

-- Puts back the jobs of flows that have fallen: all at the front of the line that a claim would have to look at one by one.
CREATE FUNCTION rota.put_back(ids uuid[], step bigint, most integer) RETURNS bigint LANGUAGE sql AS $$
    WITH fallen AS MATERIALIZED (
        SELECT DISTINCT j.queue, j.kind, j.owner, j.task, f.level FROM rota.jobs j
        JOIN rota.flows f ON f.queue = j.queue AND f.flow = j.owner || '/' || j.task
        WHERE j.id = ANY (ids) AND j.state = 'ready' AND f.level > j.level
    ), behind AS MATERIALIZED (
        SELECT held.id, fallen.level FROM (SELECT DISTINCT queue, kind FROM fallen) lane CROSS JOIN LATERAL (
            SELECT j.id, j.queue, j.kind, j.owner, j.task, j.level FROM rota.jobs j
            WHERE j.state = 'ready' AND j.queue = lane.queue AND j.kind = lane.kind ORDER BY j.rank, j.id LIMIT most
        ) front
        JOIN fallen ON fallen.queue = front.queue AND fallen.kind = front.kind AND fallen.owner = front.owner
                   AND fallen.task = front.task AND fallen.level > front.level
        CROSS JOIN LATERAL (SELECT h.id FROM rota.jobs h WHERE h.id = front.id AND h.node IS NULL FOR UPDATE SKIP LOCKED) held
    ), moved AS (
        UPDATE rota.jobs j SET rank = j.rank + (behind.level - j.level) * step, level = behind.level
        FROM behind WHERE j.id = behind.id RETURNING 1
    )
    SELECT count(*) FROM moved $$;

CREATE FUNCTION rota.fits(gate rota.gates, owner text, task text, queue text, requirements text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (gate.owner IS NULL OR gate.owner = fits.owner) AND (gate.by_user IS NULL OR gate.by_user = fits.owner)
       AND (gate.queue IS NULL OR gate.queue = fits.queue) AND (gate.task_like IS NULL OR fits.task LIKE gate.task_like)
       AND (gate.label IS NULL OR coalesce(fits.requirements::jsonb -> 'labels' ? gate.label, false)) $$;

-- The keys that a job needs, with the bounds that count. How long after its token a start may really happen is part of the
-- window: what was taken last may start late, and what comes next early.
CREATE FUNCTION rota.keys_of(owner text, requirements text)
RETURNS TABLE (key text, concurrency integer, starts integer, span bigint, slack bigint, policy text)
LANGUAGE sql STABLE AS $$
    SELECT one.key, one.concurrency, one.starts, one.span, least(greatest(one.span / 20, 20000), 500000), one.policy
    FROM (SELECT k.body ->> 0 AS key, coalesce(k.body ->> 3, 'wait') AS policy,
                 CASE WHEN l.key IS NULL THEN (k.body ->> 1)::integer ELSE l.concurrency END AS concurrency,
                 CASE WHEN l.key IS NULL THEN (k.body #>> '{2,0}')::integer ELSE l.starts END AS starts,
                 CASE WHEN l.key IS NULL THEN (k.body #>> '{2,1}')::bigint ELSE l.span END AS span
          FROM jsonb_array_elements(keys_of.requirements::jsonb -> 'keys') AS k(body)
          -- (OFFSET 0: one by one, whatever the server believes about the tables.)
          LEFT JOIN LATERAL (SELECT * FROM rota.limits WHERE owner = keys_of.owner AND key = k.body ->> 0 OFFSET 0) l ON true) one $$;

-- The keys that these jobs need, one row each (a job that needs none has one without), with how much room there is: how many
-- more may hold the key, and start now; NULL: any number.
CREATE FUNCTION rota.needs(ids uuid[], moment bigint)
RETURNS TABLE (job uuid, owner text, rank bigint, fence bigint, key text, concurrency integer, starts integer, span bigint,
               slack bigint, policy text, room bigint)
LANGUAGE sql STABLE AS $$
    SELECT j.id, j.owner, j.rank, j.fence, k.key, k.concurrency, k.starts, k.span, k.slack, k.policy,
           least(k.concurrency - (SELECT count(*) FROM rota.slots s
                                  WHERE k.concurrency IS NOT NULL AND s.owner = j.owner AND s.key = k.key),
                 k.starts - (SELECT count(*) FROM rota.starts t
                             WHERE k.starts IS NOT NULL AND t.owner = j.owner AND t.key = k.key AND t.until > moment))
    FROM rota.jobs j LEFT JOIN LATERAL rota.keys_of(j.owner, j.requirements) k ON true
    WHERE j.id = ANY (ids) $$;

-- Whether nothing runs beside a job that wants to be alone. Claims that began before its gate was closed need a moment to show.
CREATE FUNCTION rota.is_alone(job uuid, moment bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM rota.gates g WHERE g.job = is_alone.job AND g.opened_at IS NULL AND g.created_at + 500000 <= moment
           AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.node IS NOT NULL AND j.id <> is_alone.job
                             AND rota.fits(g, j.owner, j.task, j.queue, j.requirements))) $$;

-- Looks at ready jobs that a claim must not simply take: those that a gate fits, and those that need keys. Moves aside what
-- may not run and claims the rest (`only_gates`: looks at gates, and claims nothing). One caller at a time: so what it counts is so.
CREATE FUNCTION rota.pass(ids uuid[], incarnation text, given bigint, only_gates boolean)
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
            INSERT INTO rota.starts (owner, key, job, fence, at, until)
            SELECT owner, key, job, fence + 1, moment, moment + span + slack FROM winner WHERE starts IS NOT NULL
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
    WITH full_ones AS MATERIALIZED (
        SELECT DISTINCT ON (n.job) n.job, n.owner, n.key, n.policy FROM rota.needs(rest, moment) n WHERE n.room <= 0 ORDER BY n.job, n.key
    ), held AS (
        UPDATE rota.jobs j SET state = 'held', held_by = 'k:' || f.owner || ':' || f.key, reason = 'waits for key ' || f.key
        FROM full_ones f WHERE j.id = f.job AND f.policy <> 'skip'
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

-- A newer job takes the place of older ones with the same key: those that wait end, those that run are asked to stop.
CREATE FUNCTION rota.replace_holders(by text, name text, newer uuid, moment bigint) RETURNS void LANGUAGE plpgsql AS $$
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

-- Lets those go on that wait for keys: of the keys on the list, or (all) of every key that somebody waits for. As many as there
-- is room for, less those that are on their way already; a look at all does not count these: perhaps nobody takes them.
CREATE FUNCTION rota.hand_on(every boolean, given bigint, most integer,
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
        SELECT wanted.line, head.owner, k.*
        FROM unnest(lines) AS wanted(line)
        CROSS JOIN LATERAL (SELECT j.owner, j.requirements FROM rota.jobs j WHERE j.held_by = wanted.line AND j.state = 'held'
                            ORDER BY j.rank, j.id LIMIT 1) head
        CROSS JOIN LATERAL rota.keys_of(head.owner, head.requirements) k WHERE 'k:' || head.owner || ':' || k.key = wanted.line
    ), room AS MATERIALIZED (
        SELECT f.line, f.owner, f.key, f.starts,
               least(f.concurrency - (SELECT count(*) FROM rota.slots s
                                      WHERE f.concurrency IS NOT NULL AND s.owner = f.owner AND s.key = f.key),
                     f.starts - (SELECT count(*) FROM rota.starts t
                                 WHERE f.starts IS NOT NULL AND t.owner = f.owner AND t.key = f.key AND t.until > moment))
               - CASE WHEN every THEN 0 ELSE (SELECT count(*) FROM rota.jobs j WHERE j.held_by = f.line AND j.state = 'ready') END AS room
        FROM first f
    ), next AS MATERIALIZED (
        SELECT n.id FROM room r
        CROSS JOIN LATERAL (SELECT j.id FROM rota.jobs j WHERE j.held_by = r.line AND j.state = 'held' ORDER BY j.rank, j.id
                            LIMIT least(coalesce(r.room, most), most) FOR UPDATE SKIP LOCKED) n
        WHERE r.room IS NULL OR r.room > 0
    ), going AS (
        UPDATE rota.jobs j SET state = 'ready', reason = NULL FROM next WHERE j.id = next.id RETURNING 1
    )
    SELECT (SELECT count(*) FROM going), coalesce((SELECT count(*) >= most FROM next), false) AND EXISTS (SELECT FROM room WHERE room IS NULL),
           (SELECT min((SELECT min(t.until) FROM rota.starts t WHERE t.owner = r.owner AND t.key = r.key AND t.until > moment))
            FROM room r WHERE r.room <= 0 AND r.starts IS NOT NULL)
    INTO moved, more, next_at;
    more := more OR (NOT every AND EXISTS (SELECT FROM rota.freed));
END $$;

-- Holds and drops what closed gates fit, in the order of ids; lets go, lowest rank first, what opened ones held.
CREATE FUNCTION rota.sweep_gates(given bigint, most integer, OUT moved bigint, OUT next_at bigint, OUT more boolean)
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

-- Lets jobs go on that are alone by now. At its deadline a job yields and tries again later, or has the others cancelled.
CREATE FUNCTION rota.sweep_alone(given bigint, OUT moved bigint, OUT cancelled bigint, OUT next_at bigint) LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := rota.clock(given);
    one    record;
    n      bigint;
BEGIN
    moved := 0; cancelled := 0;
    FOR one IN
        SELECT j.id, g.id AS gate, (j.requirements::jsonb #>> '{alone,cancel}')::boolean AS cancel,
               (j.requirements::jsonb #>> '{alone,drain}')::bigint AS drain, g.created_at AS since
        FROM rota.jobs j LEFT JOIN rota.gates g ON g.job = j.id AND g.opened_at IS NULL
        WHERE j.held_by >= 'a:' AND j.held_by < 'a;' AND j.state = 'held' ORDER BY j.rank, j.id LIMIT 1000 FOR UPDATE OF j SKIP LOCKED
    LOOP
        next_at := least(next_at, moment + 250000);
        IF one.gate IS NULL OR rota.is_alone(one.id, moment) THEN
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

-- A template of a key with arguments filled in, as `model.limits.fill` does it.
CREATE FUNCTION rota.fill(template text, args jsonb) RETURNS text LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    piece text;
    value jsonb;
    name  text := '';
BEGIN
    FOR piece IN SELECT m[1] FROM regexp_matches(template, '(\{\{|\}\}|\{[^{}]+\}|[^{}]+)', 'g') AS m LOOP
        IF piece IN ('{{', '}}') THEN
            name := name || left(piece, 1);
        ELSIF left(piece, 1) = '{' THEN
            value := args #> string_to_array(btrim(piece, '{}'), '.');
            IF jsonb_typeof(value) IS NULL OR jsonb_typeof(value) NOT IN ('string', 'number', 'boolean') OR value::text ~ '^-?[0-9]*[.eE]' THEN
                RAISE EXCEPTION 'field % of the key: expected a text, a whole number or true or false among the arguments', piece
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            name := name || (value #>> '{}');
        ELSE
            name := name || piece;
        END IF;
    END LOOP;
    IF name = '' OR length(name) > 200 OR name <> btrim(name) THEN
        RAISE EXCEPTION 'key %: expected 1 to 200 characters without blanks around them', quote_literal(name)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN name;
END $$;

-- What an order of a task brings along by its task alone.
CREATE FUNCTION rota.requirements_of(name text, args jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
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
    SELECT jsonb_agg(jsonb_build_array(k.key, k.concurrency, k.rate, full_) ORDER BY k.key) INTO keys FROM (
        SELECT rota.fill(info ->> 'exclusive', args) AS key, '1'::jsonb AS concurrency, 'null'::jsonb AS rate WHERE info ->> 'exclusive' IS NOT NULL
        UNION ALL
        SELECT rota.fill(l ->> 0, args), coalesce(l -> 1, 'null'), coalesce(l -> 2, 'null') FROM jsonb_array_elements(info -> 'limits') AS one(l)
        UNION ALL
        SELECT 'task:' || name, 'null', info -> 'rate' WHERE jsonb_typeof(info -> 'rate') = 'array') k;
    requirements := jsonb_strip_nulls(jsonb_build_object('labels', nullif(info -> 'labels', '[]'), 'keys', keys));
    IF requirements = '{}' THEN
        RETURN requirements;
    END IF;
    RETURN jsonb_build_object('requirements', requirements::text, 'special', keys IS NOT NULL)
           || CASE WHEN keys IS NOT NULL AND full_ = 'wait' THEN jsonb_build_object('line', keys #>> '{0,0}') ELSE '{}' END;
END $$;
