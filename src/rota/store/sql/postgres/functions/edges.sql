-- Trigger: jobs that others wait for have ended. All of a statement at once, since most end by the hundred.
CREATE OR REPLACE FUNCTION rota.have_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM old_jobs WHERE tied) THEN
        INSERT INTO rota.settling (job) SELECT id FROM old_jobs WHERE tied;
    END IF;
    RETURN NULL;
END $$;

-- Settles edges by the rules of `model.graph` (edge_state, is_unneeded, after_parents, why_skipped, skip_cause), inside the write that ends a parent: of the
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
    last    uuid[];          -- children that wait for trouble, after the end of their last parent
    clear   uuid[];          -- of these, those without trouble
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
                   CASE WHEN CASE e.need WHEN 'finish'  THEN true
                                         WHEN 'success' THEN h.state = 'succeeded'
                                         WHEN 'failure' THEN h.state = 'failed'
                                         WHEN 'fine'    THEN h.state = 'succeeded' OR h.skip_cause = 'unneeded'
                                         WHEN 'trouble' THEN h.state = 'failed' OR h.skip_cause = 'trouble' END THEN 'met'
                        WHEN e.need = 'trouble' THEN 'clear' ELSE 'broken' END AS state
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
            SELECT child, count(*) AS done, bool_or(state = 'broken') AS broken,
                   EXISTS (SELECT FROM rota.edges t WHERE t.child = marking.child AND t.need = 'trouble') AS alert
            FROM marking GROUP BY child
        ), moved AS (
            UPDATE rota.jobs j
            SET waits = greatest(j.waits - sums.done, 0),
                state = CASE WHEN j.waits > sums.done OR j.state <> 'blocked' OR sums.alert THEN j.state
                             WHEN j.run_at <= moment THEN 'ready' ELSE 'scheduled' END,
                -- The first instant at which it is due and its parents have ended.
                run_at = CASE WHEN j.waits > sums.done OR j.state <> 'blocked' OR sums.alert THEN j.run_at ELSE greatest(j.run_at, moment) END,
                rank = CASE WHEN j.waits > sums.done OR j.state <> 'blocked' OR sums.alert THEN j.rank
                            ELSE greatest(j.run_at, moment) + j.priority * step END
            FROM sums WHERE j.id = sums.child AND NOT sums.broken
            RETURNING j.id, j.state, j.waits, sums.alert
        )
        SELECT (SELECT count(*) FROM marking), (SELECT coalesce(array_agg(child ORDER BY child), '{}') FROM sums WHERE sums.broken),
               (SELECT count(*) FROM moved WHERE state = 'ready'), (SELECT count(*) FROM moved WHERE state = 'scheduled'),
               (SELECT coalesce(array_agg(id), '{}') FROM moved WHERE alert AND waits = 0 AND state = 'blocked')
        INTO marked, broken, gone_on, put_off, last;
        ready := ready + gone_on;
        later := later + put_off;
        most := most - marked;

        IF last <> '{}' THEN
            -- A new statement: it sees the marks of the transactions that had locked these children before.
            WITH needed AS MATERIALIZED (
                SELECT DISTINCT child FROM rota.edges WHERE child = ANY (last) AND need = 'trouble' AND state = 'met'
            ), moved AS (
                UPDATE rota.jobs j
                SET state = CASE WHEN j.run_at <= moment THEN 'ready' ELSE 'scheduled' END,
                    run_at = greatest(j.run_at, moment), rank = greatest(j.run_at, moment) + j.priority * step
                FROM needed WHERE j.id = needed.child
                RETURNING j.id, j.state
            )
            SELECT (SELECT count(*) FROM moved WHERE state = 'ready'), (SELECT count(*) FROM moved WHERE state = 'scheduled'),
                   ARRAY(SELECT unnest(last) EXCEPT SELECT id FROM moved)
            INTO gone_on, put_off, clear;
            ready := ready + gone_on;
            later := later + put_off;
            skipped := skipped + rota.put_away(clear, 'skipped', array_fill('nothing before it failed'::text, ARRAY[cardinality(clear)]),
                                               moment, array_fill('unneeded'::text, ARRAY[cardinality(clear)]));
            wanted := CASE WHEN wanted IS NOT NULL THEN wanted || clear END;   -- (NULL || clear is clear)
        END IF;

        IF broken <> '{}' THEN
            -- A child that is no longer blocked stays as it is. Of several broken edges the first gives the reason.
            SELECT skipped + rota.put_away(array_agg(j.id), 'skipped', array_agg(why.reason), moment, array_agg(why.cause)) INTO skipped
            FROM rota.jobs j CROSS JOIN LATERAL (
                SELECT (array_agg(one.reason ORDER BY one.parent))[1] AS reason,
                       CASE WHEN bool_or(one.cause = 'trouble') THEN 'trouble'
                            WHEN bool_or(one.cause = 'stopped') THEN 'stopped' ELSE 'unneeded' END AS cause
                FROM (
                    SELECT e.parent,
                           CASE WHEN h.id IS NULL THEN 'its parent ' || e.parent || ' is gone'
                                WHEN e.need = 'failure' THEN 'its parent ' || h.id || ' (' || m.called || ') did not fail: it ' || h.state
                                WHEN h.state IN ('succeeded', 'failed') THEN 'its parent ' || h.id || ' (' || m.called || ') ' || h.state
                                ELSE 'its parent ' || h.id || ' (' || m.called || ') was ' || h.state END AS reason,
                           CASE WHEN e.need = 'failure' THEN 'unneeded' WHEN h.state = 'failed' THEN 'trouble'
                                ELSE coalesce(h.skip_cause, 'stopped') END AS cause
                    FROM rota.edges e LEFT JOIN rota.history h ON h.id = e.parent
                    CROSS JOIN LATERAL (SELECT coalesce((SELECT nullif(o.name, '') FROM rota.members o WHERE o.job = e.parent), h.task) AS called) m
                    WHERE e.child = j.id AND e.state = 'broken'
                ) one
            ) why
            WHERE j.id = ANY (broken) AND j.state = 'blocked';
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
