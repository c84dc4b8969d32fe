-- Anyone with access to the tables may write requirements. Those that can't be read would stop every claim and every end that meets
-- them, and a name that stands there twice would wait for itself: so they are refused where they are written.
CREATE OR REPLACE FUNCTION rota.check_requirements() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- The keys that a job needs, with the bounds that count. How long after its token a start may really happen is part of the
-- window: what was taken last may start late, and what comes next early.
CREATE OR REPLACE FUNCTION rota.keys_of(owner text, requirements text)
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

-- A newer job takes the place of older ones with the same key: those that wait end, those that run are asked to stop.
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

-- Trigger: a special job no longer runs. Its slots become free, and the gate it closed for itself opens.
CREATE OR REPLACE FUNCTION rota.frees_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM rota.slots WHERE job = OLD.id RETURNING owner, key
    )
    INSERT INTO rota.freed (held_by) SELECT 'k:' || owner || ':' || key FROM gone;
    UPDATE rota.gates SET opened_at = rota.clock(NULL) WHERE job = OLD.id AND opened_at IS NULL;
    RETURN NULL;
END $$;

-- Trigger: special jobs have ended. All of a statement at once: a fifth of the time that it takes one by one.
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
