-- Orders by way of SQL: inside a caller's own transaction, and from other languages. See docs/postgresql.md.

-- Accepts one order (a list of jobs) on behalf of its owner: whole, or not at all if a key was used before for something
-- else. Answers with [id, created] for each job, or with {"key", "job"} of the conflict.
CREATE FUNCTION rota.accept(by text, jobs jsonb, key_life bigint, step bigint, given bigint, ring boolean)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    moment   bigint := rota.clock(given);
    names    text[];
    fresh    text[] := '{}';
    got      text[];
    held     bigint;
    conflict jsonb;
    answer   jsonb;
    rings    text;
BEGIN
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

    SELECT jsonb_build_object('key', k.key, 'job', k.job_id) INTO conflict
    FROM jsonb_array_elements(jobs) WITH ORDINALITY AS one(job, place)
    JOIN rota.keys k ON k.owner = by AND k.key = job ->> 'key'
    WHERE k.content <> job ->> 'content' ORDER BY place LIMIT 1;
    IF conflict IS NOT NULL THEN
        DELETE FROM rota.keys k WHERE k.owner = by AND k.key = ANY (fresh);
        RETURN conflict;
    END IF;

    WITH asked AS (
        SELECT job, place, k.job_id,
               job ->> 'key' IS NULL
               OR (job ->> 'key' = ANY (fresh) AND k.job_id = (job ->> 'id')::uuid) AS created,
               least(greatest(coalesce((job ->> 'at')::bigint, moment + (job ->> 'delay')::bigint), moment),
                     250000000000000000) AS due
        FROM jsonb_array_elements(jobs) WITH ORDINALITY AS one(job, place)
        LEFT JOIN rota.keys k ON k.owner = by AND k.key = job ->> 'key'
    ), inserted AS (
        INSERT INTO rota.jobs (id, owner, state, queue, kind, task, priority, rank, run_at, expires_at, created_at,
                               spec, digest, args, retry, timeout, key)
        SELECT (job ->> 'id')::uuid, by, CASE WHEN due <= moment THEN 'ready' ELSE 'scheduled' END, job ->> 'queue',
               job ->> 'kind', job ->> 'task', (job ->> 'priority')::smallint, due + (job ->> 'priority')::bigint * step,
               due, due + (job ->> 'expires')::bigint, moment, job ->> 'spec', job ->> 'digest', job ->> 'args',
               job ->> 'retry', (job ->> 'timeout')::bigint, job ->> 'key'
        FROM asked WHERE created
        RETURNING state, expires_at
    )
    SELECT (SELECT jsonb_agg(jsonb_build_array(CASE WHEN created THEN (job ->> 'id')::uuid ELSE job_id END, created)
                             ORDER BY place) FROM asked),
           (SELECT CASE WHEN bool_or(state = 'ready') THEN 'r' ELSE '' END
                   || CASE WHEN bool_or(state = 'scheduled' OR expires_at IS NOT NULL) THEN 'd' ELSE '' END FROM inserted)
    INTO answer, rings;
    IF ring AND rings <> '' THEN
        PERFORM pg_notify('rota', rings);
    END IF;
    RETURN jsonb_build_object('jobs', answer, 'rings', coalesce(rings, ''));
END $$;

CREATE FUNCTION rota.new_id(moment bigint) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    -- A UUIDv7: milliseconds, version, randomness.
    SELECT (lpad(to_hex(moment / 1000), 12, '0') || '7' || substr(random, 14, 3) || substr(random, 17))::uuid
    FROM (SELECT replace(gen_random_uuid()::text, '-', '') AS random) one $$;

CREATE FUNCTION rota.microseconds(span interval) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (extract(epoch FROM span) * 1000000)::bigint $$;

-- One job, from any language that speaks SQL. What is not given is taken from the task's own options.
CREATE FUNCTION rota.submit(
    task text, args jsonb DEFAULT '{}', queue text DEFAULT NULL, priority integer DEFAULT NULL,
    run_at timestamptz DEFAULT NULL, delay interval DEFAULT NULL, key text DEFAULT NULL, retries integer DEFAULT NULL,
    timeout interval DEFAULT NULL, expires interval DEFAULT NULL, owner text DEFAULT 'local', ring boolean DEFAULT true
) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    info    jsonb;
    body    text;
    parts   jsonb;
    name    text;
    answer  jsonb;
BEGIN
    SELECT t.info::jsonb INTO info FROM rota.tasks t WHERE t.name = submit.task;
    IF info IS NULL THEN
        RAISE EXCEPTION 'unknown task %', quote_literal(task)
            USING HINT = 'a node that offers it must have joined once', ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(args) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'arguments of task %: expected a JSON object of names and values', quote_literal(task)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR name IN SELECT jsonb_array_elements_text(info -> 'required') LOOP
        IF NOT args ? name THEN
            RAISE EXCEPTION 'task %: % is missing', quote_literal(task), quote_literal(name)
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    IF NOT coalesce((info ->> 'open')::boolean, false) THEN
        FOR name IN SELECT jsonb_object_keys(args) LOOP
            IF NOT (info -> 'parameters') ? name THEN
                RAISE EXCEPTION 'task %: % is unknown', quote_literal(task), quote_literal(name)
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
        END LOOP;
    END IF;
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        RAISE EXCEPTION 'run_at and delay: both are given; expected one of them' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF priority NOT BETWEEN 0 AND 9 THEN
        RAISE EXCEPTION 'priority: % is not valid; expected 0 (most urgent) to 9', priority
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF retries < 0 OR delay < '0'::interval OR timeout <= '0'::interval OR expires <= '0'::interval THEN
        RAISE EXCEPTION 'retries, delay, timeout and expires must not be negative, the last two not zero either'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    body := '{"name":' || to_json(task)::text || '}';
    parts := jsonb_build_object(
        'task', task, 'kind', 'function', 'spec', body,
        'digest', encode(sha256('function'::bytea || '\x00'::bytea || convert_to(body, 'UTF8')), 'hex'),
        'args', args::text, 'queue', coalesce(queue, info ->> 'queue'),
        'priority', coalesce(priority, (info ->> 'priority')::integer),
        'at', (extract(epoch FROM run_at) * 1000000)::bigint, 'delay', coalesce(rota.microseconds(delay), 0),
        'retry', (CASE WHEN retries IS NULL THEN info -> 'retry'
                       ELSE jsonb_set(coalesce(info -> 'retry', '{}'), '{retries}', to_jsonb(retries)) END)::text,
        'timeout', coalesce(rota.microseconds(timeout), (info ->> 'timeout')::bigint),
        'expires', rota.microseconds(expires), 'key', key);
    parts := parts || jsonb_build_object('id', rota.new_id(rota.clock(NULL)),
                                         'content', 'sql:' || encode(sha256(convert_to(parts::text, 'UTF8')), 'hex'));
    answer := rota.accept(owner, jsonb_build_array(parts), 604800000000, 60000000, NULL, ring);
    IF answer ? 'key' THEN
        RAISE EXCEPTION 'key % was used before for another order (job %)', quote_literal(key), answer ->> 'job'
            USING ERRCODE = 'unique_violation';
    END IF;
    RETURN (answer #>> '{jobs,0,0}')::uuid;
END $$;
