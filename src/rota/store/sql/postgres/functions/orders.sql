-- Takes the keys of several orders of one call. Each order takes its keys in their order; but with one order after the
-- other, two calls could take the same keys the other way round and deadlock. So all keys of a call are inserted first, in
-- their order: another transaction that inserts one of them waits until this one has ended, also after the row is deleted.
CREATE OR REPLACE FUNCTION rota.take_keys(by text, names text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    taken text[];
BEGIN
    WITH inserted AS (
        INSERT INTO rota.keys (owner, key, content, job_id, expires_at)
        SELECT by, name, '', '00000000-0000-0000-0000-000000000000', 9223372036854775807 FROM (SELECT DISTINCT unnest(names) AS name ORDER BY 1) one
        ON CONFLICT (owner, key) DO NOTHING RETURNING key
    )
    SELECT array_agg(key) INTO taken FROM inserted;
    DELETE FROM rota.keys k WHERE k.owner = by AND k.key = ANY (taken);
END $$;

-- Accepts one order (a list of jobs, with parents and workflows) on behalf of its owner: whole, or not at all if a key
-- was used before for something else, or a parent or workflow is unknown. Answers {"jobs": [[id, created], ...],
-- "rings"}, or the reason of the refusal: {"key", "job"}, {"parent"} or {"workflow"}. With `ring` the notification is
-- sent from here: rota can't act after the commit of a caller's transaction.
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
    IF jobs #>> '{0,content}' LIKE 'sql:%' THEN   -- ordered by the function `submit`, which leaves labels and limits to `accept`
        jobs := jsonb_build_array((jobs -> 0) || rota.requirements_of(jobs #>> '{0,task}', (jobs #>> '{0,args}')::jsonb));
    END IF;
    -- The keys come first, in their order: two callers with the same keys wait for each other and don't deadlock. Keys that
    -- were there before are locked too; one that is pruned in between is taken anew.
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
        INSERT INTO rota.jobs ({jobs.inserted}, parents, waits, tied, held_by, reason)
        SELECT {jobs.inserted given; special = coalesce(given.special, false); owner = by;
                state = CASE WHEN asked.waits > 0 THEN 'blocked' WHEN due > moment THEN 'scheduled' WHEN job ? 'line' THEN 'held' ELSE 'ready' END;
                rank = due + given.priority * step; run_at = due; expires_at = due + (job ->> 'expires')::bigint; created_at = moment},
               asked.waits, asked.waits, above ? (job ->> 'id'),
               CASE WHEN asked.waits = 0 AND due <= moment THEN 'k:' || by || ':' || (job ->> 'line') END,
               CASE WHEN asked.waits = 0 AND due <= moment THEN 'waits for key ' || (job ->> 'line') END
        FROM asked CROSS JOIN LATERAL jsonb_populate_record(NULL::rota.jobs, job) AS given WHERE created
        RETURNING state, expires_at, held_by
    ), lines AS (
        -- A job that waits for a key joins its line at once.
        INSERT INTO rota.freed (held_by) SELECT DISTINCT held_by FROM inserted WHERE state = 'held'
    ), tied AS (
        INSERT INTO rota.edges (child, parent, need, fills, at)
        SELECT (job ->> 'id')::uuid, coalesce(known ->> (edge ->> 0), edge ->> 0)::uuid, edge ->> 1, nullif(edge ->> 2, '[]'), moment
        FROM asked, jsonb_array_elements(job -> 'after') AS two(edge) WHERE created AND graph
        ON CONFLICT DO NOTHING                       -- two jobs of an order with the same key are one parent
    ), flows AS (
        INSERT INTO rota.workflows (id, owner, name, created_at)
        SELECT DISTINCT (job #>> '{workflow,id}')::uuid, by, job #>> '{workflow,name}', moment
        FROM asked WHERE created AND graph AND (job #>> '{workflow,new}')::boolean
        ON CONFLICT DO NOTHING
    ), joined AS (
        INSERT INTO rota.members (workflow, job, place, name)
        SELECT (job #>> '{workflow,id}')::uuid, (job ->> 'id')::uuid, moment + place, coalesce(job ->> 'name', '')
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

    -- Inside a caller's transaction no rows are locked that others need: the resolver settles these later.
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

-- Several orders of one owner in one call; an answer for each.
CREATE OR REPLACE FUNCTION rota.accept_all(by text, orders jsonb[], key_life bigint, step bigint, given bigint) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
DECLARE
    names text[];
    one   jsonb;
BEGIN
    SELECT array_agg(job ->> 'key') INTO names FROM unnest(orders) AS each(body), jsonb_array_elements(body) AS two(job)
    WHERE job ->> 'key' IS NOT NULL;
    IF cardinality(orders) > 1 AND cardinality(names) > 1 THEN
        PERFORM rota.take_keys(by, names);
    END IF;
    FOREACH one IN ARRAY orders LOOP
        RETURN NEXT rota.accept(by, one, key_life, step, given, false);
    END LOOP;
END $$;
