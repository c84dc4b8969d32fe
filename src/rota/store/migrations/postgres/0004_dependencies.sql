-- Jobs that wait for others, and workflows: jobs that were ordered together.

ALTER TABLE rota.jobs ADD COLUMN tied    boolean NOT NULL DEFAULT false,   -- others wait for its end
                      ADD COLUMN parents integer NOT NULL DEFAULT 0,       -- how many it was ordered after,
                      ADD COLUMN waits   integer NOT NULL DEFAULT 0,       -- and how many of them have not ended as needed
                      ADD COLUMN requirements  text,                             -- labels and keys; NULL: none
                      ADD COLUMN special boolean NOT NULL DEFAULT false,   -- it needs keys
                      ADD COLUMN level   smallint NOT NULL DEFAULT 0,      -- of feedback, by which its rank was put back
                      ADD COLUMN own_step bigint,                          -- of ageing, by which it was ranked; NULL: as everywhere
                      ADD COLUMN held_by text COLLATE "C";    -- (ranges of it are asked for) what holds it: g:gate or k:owner:key; or, when ready, the key that let it go
ALTER TABLE rota.history ADD COLUMN requirements text;
CREATE INDEX jobs_held   ON rota.jobs (held_by, rank, id) WHERE held_by IS NOT NULL;
CREATE INDEX jobs_let_go ON rota.jobs (held_by)           WHERE state = 'ready' AND held_by IS NOT NULL;

-- Who waits for whom. Not partitioned: a parent may have ended long before its child.
CREATE TABLE rota.edges (
    child    uuid   NOT NULL,
    parent   uuid   NOT NULL,
    need     text   NOT NULL CHECK (need IN ('success', 'finish', 'failure')),
    standing text   NOT NULL DEFAULT 'open' CHECK (standing IN ('open', 'met', 'broken')),
    at       bigint NOT NULL,
    PRIMARY KEY (child, parent)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX edges_open   ON rota.edges (parent, child) WHERE standing = 'open';
CREATE INDEX edges_parent ON rota.edges (parent);
CREATE INDEX edges_at     ON rota.edges (at);

-- Jobs to be looked at on behalf of those that wait for them: they have ended, or someone has just begun to wait. Whoever ends
-- a job in whatever way can't forget to put it here; whoever looks after it is done in the same transaction if possible, and
-- by the resolver if not. A job may stand here several times: were it only once, whoever puts it here would have to wait for
-- everyone else who has done so and not yet committed (a caller's own transaction may last), or rely on a row that is taken
-- away before its own edge can be seen.
CREATE TABLE rota.settling (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job uuid NOT NULL)
WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Most end by the hundred: all of a statement at once.
CREATE FUNCTION rota.have_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM old_jobs WHERE tied) THEN
        INSERT INTO rota.settling (job) SELECT id FROM old_jobs WHERE tied;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tied_jobs_ended AFTER DELETE ON rota.jobs
    REFERENCING OLD TABLE AS old_jobs FOR EACH STATEMENT EXECUTE FUNCTION rota.have_ended();

CREATE TABLE rota.workflows (
    id         uuid   NOT NULL PRIMARY KEY,
    owner      text   NOT NULL,
    name       text   NOT NULL,
    created_at bigint NOT NULL
);
CREATE INDEX workflows_latest ON rota.workflows (created_at, id);

CREATE TABLE rota.members (
    workflow uuid   NOT NULL,
    job      uuid   NOT NULL PRIMARY KEY,
    place    bigint NOT NULL                      -- the order in which they were ordered
);
CREATE INDEX members_workflow ON rota.members (workflow, place);

-- Ends waiting jobs without an attempt.
CREATE FUNCTION rota.put_away(ids uuid[], ending text, reasons text[], moment bigint) RETURNS bigint
LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM rota.jobs WHERE id = ANY (ids) AND node IS NULL RETURNING *
    ), kept AS (
        INSERT INTO rota.history (id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at,
                                  started_at, fence, tries, failures, crashes, interruptions, replays, reason, spec, digest,
                                  args, retry, timeout, key, requirements, finished_at, lasting)
        SELECT g.id, g.owner, ending, g.queue, g.kind, g.task, g.priority, g.rank, g.run_at, g.expires_at, g.created_at,
               g.started_at, g.fence, g.tries, g.failures, g.crashes, g.interruptions, g.replays,
               reasons[array_position(ids, g.id)], g.spec, g.digest, g.args, g.retry, g.timeout, g.key, g.requirements, moment, false
        FROM gone g RETURNING 1
    )
    SELECT count(*) FROM kept $$;

-- Looks after jobs that others wait for: the wanted ones and what is skipped because of them, or any. Children whose last
-- parent has ended as needed go on; those of a parent that ended otherwise are skipped, and what waits for these comes next.
-- Nobody is waited for: what others have locked is left for the next time. At most about `most` edges at a time.
CREATE FUNCTION rota.settle(wanted uuid[], given bigint, step bigint, most integer,
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

        -- Those that live are to be put here again when they end.
        WITH living AS (
            SELECT j.id, j.tied FROM rota.jobs j WHERE j.id = ANY (work) ORDER BY j.id FOR NO KEY UPDATE SKIP LOCKED
        ), tying AS (
            UPDATE rota.jobs j SET tied = true FROM living WHERE j.id = living.id AND NOT living.tied
        )
        DELETE FROM rota.settling s USING living WHERE s.number = ANY (taken) AND s.job = living.id;

        -- Held, so that nobody brings them back to life meanwhile. Neither here nor there: it was purged.
        SELECT coalesce(array_agg(w.job), '{}') INTO ended FROM unnest(work) AS w(job)
        WHERE NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = w.job)
          AND (EXISTS (SELECT FROM rota.history h WHERE h.id = w.job FOR KEY SHARE SKIP LOCKED)
               OR NOT EXISTS (SELECT FROM rota.history h WHERE h.id = w.job));

        WITH chosen AS MATERIALIZED (
            SELECT e.child, e.parent,
                   CASE WHEN e.need = 'finish'
                          OR (e.need = 'success') = (h.state = 'succeeded') AND (e.need = 'failure') = (h.state = 'failed')
                        THEN 'met' ELSE 'broken' END AS standing
            FROM (SELECT * FROM rota.edges WHERE parent = ANY (ended) AND standing = 'open' ORDER BY child LIMIT most) e
            LEFT JOIN rota.history h ON h.id = e.parent
        ), waiting AS MATERIALIZED (
            SELECT j.id FROM rota.jobs j WHERE j.id IN (SELECT child FROM chosen) ORDER BY j.id FOR UPDATE SKIP LOCKED
        ), resting AS MATERIALIZED (
            -- Children that have ended are held as well: who reopens one has it wait for this parent again.
            SELECT h.id FROM rota.history h WHERE h.id IN (SELECT child FROM chosen) FOR KEY SHARE SKIP LOCKED
        ), marking AS (
            UPDATE rota.edges e SET standing = chosen.standing FROM chosen
            WHERE e.child = chosen.child AND e.parent = chosen.parent AND e.standing = 'open'
              AND (chosen.child IN (SELECT id FROM waiting) OR chosen.child IN (SELECT id FROM resting)
                   OR NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = chosen.child)
                      AND NOT EXISTS (SELECT FROM rota.history h WHERE h.id = chosen.child))
            RETURNING e.child, e.standing
        ), sums AS MATERIALIZED (
            SELECT child, count(*) FILTER (WHERE standing = 'met') AS met, bool_or(standing = 'broken') AS broken
            FROM marking GROUP BY child
        ), moved AS (
            UPDATE rota.jobs j
            SET waits = greatest(j.waits - sums.met, 0),
                state = CASE WHEN j.waits > sums.met OR j.state <> 'blocked' THEN j.state
                             WHEN j.run_at <= moment THEN 'ready' ELSE 'scheduled' END,
                -- The first instant at which it is due with its parents done.
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
                WHERE e.child = b.id AND e.standing = 'broken' ORDER BY e.parent LIMIT 1
            ) why;
            -- (What ended otherwise, or went on by other means, stays as it is.)
            SELECT skipped + rota.put_away(array_agg(b.id ORDER BY b.place), 'skipped',
                                           array_agg(reasons[b.place] ORDER BY b.place), moment) INTO skipped
            FROM unnest(broken) WITH ORDINALITY AS b(id, place) JOIN rota.jobs j ON j.id = b.id AND j.state = 'blocked';
            wanted := CASE WHEN wanted IS NOT NULL THEN wanted || broken END;   -- (NULL || broken is broken)
        END IF;

        DELETE FROM rota.settling s WHERE s.number = ANY (taken) AND s.job = ANY (ended)
          AND NOT EXISTS (SELECT FROM rota.edges e WHERE e.parent = s.job AND e.standing = 'open');
        IF marked = 0 OR most <= 0 THEN
            unsettled := EXISTS (SELECT FROM rota.settling s WHERE wanted IS NULL OR s.job = ANY (wanted));
            EXIT;
        END IF;
    END LOOP;
END $$;

-- As before, and for jobs with parents and workflows.
CREATE OR REPLACE FUNCTION rota.accept(by text, jobs jsonb, key_life bigint, step bigint, given bigint, ring boolean)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    moment   bigint := rota.clock(given);
    names    text[];
    fresh    text[] := '{}';
    got      text[];
    held     bigint;
    refusal  jsonb;
    answer   jsonb;
    rings    text;
    graph    boolean;
    known    jsonb := '{}';          -- jobs of this order that were made before: their real ids
    above    jsonb := '{}';          -- jobs of this order that others of it wait for
    outside  uuid[] := '{}';         -- parents that are not of this order
    settled  record;
BEGIN
    IF jobs #>> '{0,content}' LIKE 'sql:%' THEN   -- by way of the function `submit`, which knows nothing of labels and limits
        jobs := jsonb_build_array((jobs -> 0) || rota.requirements_of(jobs #>> '{0,task}', (jobs #>> '{0,args}')::jsonb));
    END IF;
    -- The keys come first, in their order: two callers with the same keys wait for each other and don't lock up. Those that
    -- were there before are held too; one that is pruned in between is taken anew.
    SELECT coalesce(array_agg(DISTINCT job ->> 'key'), '{}') INTO names
    FROM jsonb_array_elements(jobs) AS one(job) WHERE job ->> 'key' IS NOT NULL;
    LOOP
        WITH wanted AS (
            SELECT DISTINCT ON (job ->> 'key')
                   job ->> 'key' AS key, job ->> 'content' AS content, (job ->> 'id')::uuid AS id
            FROM jsonb_array_elements(jobs) WITH ORDINALITY AS one(job, place)
            WHERE job ->> 'key' IS NOT NULL
            ORDER BY job ->> 'key', place
        ), taken AS (
            INSERT INTO rota.keys (owner, key, content, job_id, expires_at)
            SELECT by, wanted.key, content, id, moment + key_life FROM wanted ORDER BY wanted.key
            ON CONFLICT (owner, key) DO NOTHING RETURNING keys.key
        )
        SELECT coalesce(array_agg(taken.key), '{}') INTO got FROM taken;
        fresh := fresh || got;
        PERFORM FROM rota.keys k WHERE k.owner = by AND k.key = ANY (names) ORDER BY k.key FOR KEY SHARE;
        GET DIAGNOSTICS held = ROW_COUNT;
        EXIT WHEN held = cardinality(names);
    END LOOP;

    SELECT jsonb_build_object('key', k.key, 'job', k.job_id) INTO refusal
    FROM jsonb_array_elements(jobs) WITH ORDINALITY AS one(job, place)
    JOIN rota.keys k ON k.owner = by AND k.key = job ->> 'key'
    WHERE k.content <> job ->> 'content' ORDER BY place LIMIT 1;

    SELECT coalesce(bool_or(job ? 'after' OR job ? 'workflow'), false) INTO graph FROM jsonb_array_elements(jobs) AS one(job);
    IF graph AND refusal IS NULL THEN
        SELECT coalesce(jsonb_object_agg(job ->> 'id', k.job_id), '{}') INTO known
        FROM jsonb_array_elements(jobs) AS one(job) JOIN rota.keys k ON k.owner = by AND k.key = job ->> 'key'
        WHERE k.job_id <> (job ->> 'id')::uuid;
        WITH mine AS MATERIALIZED (
            SELECT jsonb_object_agg(job ->> 'id', true) AS ids FROM jsonb_array_elements(jobs) AS one(job)
        ), parents AS MATERIALIZED (
            SELECT DISTINCT coalesce(known ->> (edge ->> 0), edge ->> 0) AS id FROM jsonb_array_elements(jobs) AS one(job), jsonb_array_elements(job -> 'after') AS two(edge)
        )
        SELECT coalesce(jsonb_object_agg(p.id, true) FILTER (WHERE m.ids ? p.id), '{}'),
               coalesce(array_agg(p.id::uuid) FILTER (WHERE NOT m.ids ? p.id), '{}')
        INTO above, outside FROM parents p, mine m;
        SELECT jsonb_build_object('parent', id) INTO refusal FROM unnest(outside) WITH ORDINALITY AS wanted(id, place)
        WHERE NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = wanted.id AND j.owner = by)
          AND NOT EXISTS (SELECT FROM rota.history h WHERE h.id = wanted.id AND h.owner = by)
        ORDER BY place LIMIT 1;
        IF refusal IS NULL THEN
            SELECT jsonb_build_object('workflow', flow ->> 'id') INTO refusal
            FROM (SELECT DISTINCT job -> 'workflow' AS flow FROM jsonb_array_elements(jobs) AS one(job) WHERE job ? 'workflow') w
            LEFT JOIN rota.workflows f ON f.id = (flow ->> 'id')::uuid
            WHERE CASE WHEN f.id IS NULL THEN NOT (flow ->> 'new')::boolean ELSE f.owner <> by END LIMIT 1;
        END IF;
    END IF;
    IF refusal IS NOT NULL THEN
        DELETE FROM rota.keys k WHERE k.owner = by AND k.key = ANY (fresh);
        RETURN refusal;
    END IF;

    WITH asked AS MATERIALIZED (
        SELECT job, place, k.job_id,
               job ->> 'key' IS NULL
               OR (job ->> 'key' = ANY (fresh) AND k.job_id = (job ->> 'id')::uuid) AS created,
               least(greatest(coalesce((job ->> 'at')::bigint, moment + (job ->> 'delay')::bigint), moment),
                     250000000000000000) AS due,
               (SELECT count(DISTINCT coalesce(known ->> (edge ->> 0), edge ->> 0))
                FROM jsonb_array_elements(job -> 'after') AS two(edge)) AS waits
        FROM jsonb_array_elements(jobs) WITH ORDINALITY AS one(job, place)
        LEFT JOIN rota.keys k ON k.owner = by AND k.key = job ->> 'key'
    ), inserted AS (
        INSERT INTO rota.jobs (id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at,
                               spec, digest, args, retry, timeout, key, parents, waits, tied, requirements, special,
                               held_by, reason)
        SELECT (job ->> 'id')::uuid, by,
               CASE WHEN asked.waits > 0 THEN 'blocked' WHEN due > moment THEN 'scheduled'
                    WHEN job ? 'line' THEN 'held' ELSE 'ready' END, job ->> 'queue',
               job ->> 'kind', job ->> 'task', (job ->> 'priority')::smallint, due + (job ->> 'priority')::bigint * step,
               due, due + (job ->> 'expires')::bigint, moment, job ->> 'spec', job ->> 'digest', job ->> 'args',
               job ->> 'retry', (job ->> 'timeout')::bigint, job ->> 'key', asked.waits, asked.waits, above ? (job ->> 'id'),
               job ->> 'requirements', coalesce((job ->> 'special')::boolean, false),
               CASE WHEN asked.waits = 0 AND due <= moment THEN 'k:' || by || ':' || (job ->> 'line') END,
               CASE WHEN asked.waits = 0 AND due <= moment THEN 'waits for key ' || (job ->> 'line') END
        FROM asked WHERE created
        RETURNING state, expires_at, held_by
    ), lines AS (
        -- Whoever waits for a key stands in line from the beginning.
        INSERT INTO rota.freed (held_by) SELECT DISTINCT held_by FROM inserted WHERE state = 'held'
    ), tied AS (
        INSERT INTO rota.edges (child, parent, need, at)
        SELECT (job ->> 'id')::uuid, coalesce(known ->> (edge ->> 0), edge ->> 0)::uuid, edge ->> 1, moment
        FROM asked, jsonb_array_elements(job -> 'after') AS two(edge) WHERE created AND graph
        ON CONFLICT DO NOTHING                       -- two of an order with the same key are one parent
    ), flows AS (
        INSERT INTO rota.workflows (id, owner, name, created_at)
        SELECT DISTINCT (job #>> '{workflow,id}')::uuid, by, job #>> '{workflow,name}', moment
        FROM asked WHERE created AND graph AND (job #>> '{workflow,new}')::boolean
        ON CONFLICT DO NOTHING
    ), joined AS (
        INSERT INTO rota.members (workflow, job, place)
        SELECT (job #>> '{workflow,id}')::uuid, (job ->> 'id')::uuid, moment + place
        FROM asked WHERE created AND graph AND job ? 'workflow'
    ), looked_at AS (
        INSERT INTO rota.settling (job) SELECT unnest(outside)
    )
    SELECT (SELECT jsonb_agg(jsonb_build_array(CASE WHEN created THEN (job ->> 'id')::uuid ELSE job_id END, created)
                             ORDER BY place) FROM asked),
           (SELECT CASE WHEN bool_or(state = 'ready') THEN 'r' ELSE '' END
                   || CASE WHEN bool_or(state = 'scheduled' OR expires_at IS NOT NULL) THEN 'd' ELSE '' END
                   || CASE WHEN bool_or(state = 'blocked') THEN 't' ELSE '' END
                   || CASE WHEN bool_or(state = 'held') THEN 'g' ELSE '' END FROM inserted)
    INTO answer, rings;

    -- Inside a caller's transaction nothing is locked that others need: the resolver will see to it.
    IF outside <> '{}' AND NOT ring THEN
        SELECT * INTO settled FROM rota.settle(outside, given, step, 1000);
        rings := rings || CASE WHEN settled.ready > 0 THEN 'r' ELSE '' END || CASE WHEN settled.later > 0 THEN 'd' ELSE '' END
                       || CASE WHEN settled.skipped > 0 THEN 'n' ELSE '' END;
    END IF;
    IF NOT ring AND position('g' IN rings) > 0 THEN
        SELECT * INTO settled FROM rota.hand_on(false, given, 1000);
        rings := rings || CASE WHEN settled.moved > 0 THEN 'r' ELSE '' END;
    END IF;
    IF ring AND rings <> '' THEN
        PERFORM pg_notify('rota', rings);
    END IF;
    RETURN jsonb_build_object('jobs', answer, 'rings', coalesce(rings, ''));
END $$;
