-- Trigger: jobs that others wait for have ended. All of a statement at once, since most end by the hundred.
CREATE OR REPLACE FUNCTION rota.have_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM old_jobs WHERE tied) THEN
        INSERT INTO rota.settling (job) SELECT id FROM old_jobs WHERE tied;
    END IF;
    RETURN NULL;
END $$;

-- Settles edges by the rules of `model.graph` (edge_state, after_parents, why_skipped), inside the write that ends a parent: of the
-- wanted jobs and of jobs that are skipped because of them, or of any. Children whose last parent has ended as needed go on; children
-- of a parent that ended otherwise are skipped, and jobs that wait for these come next. Rows that others have locked are left for the
-- next time. At most about `most` edges at a time. tests/store/postgres/test_rules.py holds it against the model.
CREATE OR REPLACE FUNCTION rota.settle(wanted uuid[], given bigint, step bigint, most integer,
                            OUT ready bigint, OUT later bigint, OUT skipped bigint, OUT unsettled boolean)
LANGUAGE plpgsql AS $$
DECLARE
    moment  bigint := rota.clock(given);
    taken   bigint[];
    work    uuid[];
    ended   uuid[];
    marked  bigint;
    broken  uuid[];
    reasons text[];
    gone_on bigint;
    put_off bigint;
BEGIN
    ready := 0; later := 0; skipped := 0; unsettled := false;
    LOOP
        SELECT array_agg(number), array_agg(DISTINCT job) INTO taken, work FROM (
            SELECT s.number, s.job FROM rota.settling s WHERE wanted IS NULL OR s.job = ANY (wanted)
            ORDER BY s.number LIMIT 200 FOR UPDATE SKIP LOCKED) one;
        EXIT WHEN work IS NULL;

        -- Jobs that live get their row again when they end.
        WITH living AS (
            SELECT j.id, j.tied FROM rota.jobs j WHERE j.id = ANY (work) ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
        ), tying AS (
            UPDATE rota.jobs j SET tied = true FROM living WHERE j.id = living.id AND NOT living.tied
        )
        DELETE FROM rota.settling s USING living WHERE s.number = ANY (taken) AND s.job = living.id;

        -- Locked, so that no replay reopens them meanwhile. A job in neither table was purged.
        SELECT coalesce(array_agg(w.job), '{}') INTO ended FROM unnest(work) AS w(job)
        WHERE NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = w.job)
          AND (EXISTS (SELECT FROM rota.history h WHERE h.id = w.job FOR KEY SHARE SKIP LOCKED)
               OR NOT EXISTS (SELECT FROM rota.history h WHERE h.id = w.job));

        WITH chosen AS MATERIALIZED (
            SELECT e.child, e.parent,
                   CASE WHEN e.need = 'finish'
                          OR (e.need = 'success') = (h.state = 'succeeded') AND (e.need = 'failure') = (h.state = 'failed')
                        THEN 'met' ELSE 'broken' END AS state
            FROM (SELECT * FROM rota.edges WHERE parent = ANY (ended) AND state = 'open' ORDER BY child LIMIT most) e
            LEFT JOIN rota.history h ON h.id = e.parent
        ), waiting AS MATERIALIZED (
            SELECT j.id FROM rota.jobs j WHERE j.id IN (SELECT child FROM chosen) ORDER BY j.id FOR UPDATE SKIP LOCKED
        ), resting AS MATERIALIZED (
            -- Children that have ended are locked as well: a replay has its child wait for this parent again.
            SELECT h.id FROM rota.history h WHERE h.id IN (SELECT child FROM chosen) FOR KEY SHARE SKIP LOCKED
        ), marking AS (
            UPDATE rota.edges e SET state = chosen.state FROM chosen
            WHERE e.child = chosen.child AND e.parent = chosen.parent AND e.state = 'open'
              AND (chosen.child IN (SELECT id FROM waiting) OR chosen.child IN (SELECT id FROM resting)
                   OR NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = chosen.child)
                      AND NOT EXISTS (SELECT FROM rota.history h WHERE h.id = chosen.child))
            RETURNING e.child, e.state
        ), sums AS MATERIALIZED (
            SELECT child, count(*) FILTER (WHERE state = 'met') AS met, bool_or(state = 'broken') AS broken
            FROM marking GROUP BY child
        ), moved AS (
            UPDATE rota.jobs j
            SET waits = greatest(j.waits - sums.met, 0),
                state = CASE WHEN j.waits > sums.met OR j.state <> 'blocked' THEN j.state
                             WHEN j.run_at <= moment THEN 'ready' ELSE 'scheduled' END,
                -- The first instant at which it is due and its parents have ended.
                run_at = CASE WHEN j.waits > sums.met OR j.state <> 'blocked' THEN j.run_at ELSE greatest(j.run_at, moment) END,
                rank = CASE WHEN j.waits > sums.met OR j.state <> 'blocked' THEN j.rank
                            ELSE greatest(j.run_at, moment) + j.priority * step END
            FROM sums WHERE j.id = sums.child AND NOT sums.broken
            RETURNING j.state
        )
        SELECT (SELECT count(*) FROM marking), (SELECT coalesce(array_agg(child ORDER BY child), '{}') FROM sums WHERE sums.broken),
               (SELECT count(*) FROM moved WHERE state = 'ready'), (SELECT count(*) FROM moved WHERE state = 'scheduled')
        INTO marked, broken, gone_on, put_off;
        ready := ready + gone_on;
        later := later + put_off;
        most := most - marked;

        IF broken <> '{}' THEN
            SELECT array_agg(why.reason ORDER BY place) INTO reasons FROM unnest(broken) WITH ORDINALITY AS b(id, place)
            CROSS JOIN LATERAL (
                SELECT CASE WHEN h.id IS NULL THEN 'its parent ' || e.parent || ' is gone'
                            WHEN e.need = 'failure' THEN 'its parent ' || h.id || ' (' || h.task || ') did not fail: it ' || h.state
                            WHEN h.state IN ('succeeded', 'failed') THEN 'its parent ' || h.id || ' (' || h.task || ') ' || h.state
                            ELSE 'its parent ' || h.id || ' (' || h.task || ') was ' || h.state END AS reason
                FROM rota.edges e LEFT JOIN rota.history h ON h.id = e.parent
                WHERE e.child = b.id AND e.state = 'broken' ORDER BY e.parent LIMIT 1
            ) why;
            -- A child that is no longer blocked stays as it is.
            SELECT skipped + rota.put_away(array_agg(b.id ORDER BY b.place), 'skipped',
                                           array_agg(reasons[b.place] ORDER BY b.place), moment) INTO skipped
            FROM unnest(broken) WITH ORDINALITY AS b(id, place) JOIN rota.jobs j ON j.id = b.id AND j.state = 'blocked';
            wanted := CASE WHEN wanted IS NOT NULL THEN wanted || broken END;   -- (NULL || broken is broken)
        END IF;

        DELETE FROM rota.settling s WHERE s.number = ANY (taken) AND s.job = ANY (ended)
          AND NOT EXISTS (SELECT FROM rota.edges e WHERE e.parent = s.job AND e.state = 'open');
        IF marked = 0 OR most <= 0 THEN
            unsettled := EXISTS (SELECT FROM rota.settling s WHERE wanted IS NULL OR s.job = ANY (wanted));
            EXIT;
        END IF;
    END LOOP;
END $$;
