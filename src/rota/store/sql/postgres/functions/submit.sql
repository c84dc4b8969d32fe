-- Orders by SQL: inside a caller's own transaction, and from other languages. See docs/postgresql.md.

-- Refuses an argument of the wrong type. `kinds`: words of JSON Schema; NULL or empty: any value fits. A node reads 7.0 as a float.
CREATE OR REPLACE FUNCTION rota.check_type(task text, name text, value jsonb, kinds jsonb) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_array_length(kinds) > 0 AND NOT kinds ? jsonb_typeof(value)
       AND NOT (kinds ? 'integer' AND CASE WHEN jsonb_typeof(value) = 'number' THEN scale(value::numeric) = 0 ELSE false END) THEN
        RAISE EXCEPTION 'task ''%'': ''%'' must be %, not %', rota.one_line(task), rota.one_line(name),
            (SELECT string_agg(kind, ' or ') FROM jsonb_array_elements_text(kinds) AS one(kind)), rota.one_line(value::text)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- Orders one job, from any language that speaks SQL. The task's own options are the defaults.
CREATE OR REPLACE FUNCTION rota.submit(
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
    complaint text;
BEGIN
    SELECT t.info::jsonb INTO info FROM rota.tasks t WHERE t.name = submit.task;
    IF info IS NULL THEN
        RAISE EXCEPTION 'unknown task ''%''', rota.one_line(task)
            USING HINT = 'a node that offers it, or a Python client of its app that has ordered something, must have been there once', ERRCODE = 'invalid_parameter_value';
    END IF;
    IF jsonb_typeof(args) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'arguments of task ''%'': expected a JSON object of names and values', rota.one_line(task)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR name IN SELECT jsonb_array_elements_text(info -> 'required') LOOP
        IF NOT args ? name THEN
            RAISE EXCEPTION 'task ''%'': ''%'' is missing', rota.one_line(task), rota.one_line(name)
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END LOOP;
    IF NOT coalesce((info ->> 'open')::boolean, false) THEN
        FOR name IN SELECT jsonb_object_keys(args) LOOP
            IF NOT (info -> 'parameters') ? name THEN
                RAISE EXCEPTION 'task ''%'': ''%'' is unknown', rota.one_line(task), rota.one_line(name)
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
        END LOOP;
    END IF;
    PERFORM rota.check_type(task, given.name, given.value, info #> ARRAY['types', given.name]) FROM jsonb_each(args) AS given(name, value);
    complaint := CASE
        WHEN jsonb_path_exists(args, '$.** ? (@.type() == "number" && (@ > 1.7976931348623158e308 || @ < -1.7976931348623158e308))')
            THEN 'arguments of task ''' || rota.one_line(task) || ''': expected numbers up to 1.7976931348623158e308, which nodes can read'
        WHEN run_at IS NOT NULL AND delay IS NOT NULL THEN 'run_at and delay: both are given; expected one of them'
        WHEN NOT (isfinite(run_at) AND run_at < to_timestamp(250000000000)) THEN 'run_at: expected a time before the year 9892'
        WHEN priority NOT BETWEEN 0 AND 9 THEN 'priority: ' || priority || ' is not valid; expected 0 (most urgent) to 9'
        WHEN retries NOT BETWEEN 0 AND 1000000 THEN 'retries: ' || retries || ' is not valid; expected a whole number, 0 or more'
        WHEN extract(epoch FROM delay) NOT BETWEEN 0 AND 3162240000 THEN 'delay: expected an interval, not negative, at most 100 years'
        WHEN timeout <= '0' OR extract(epoch FROM timeout) > 3162240000 THEN 'timeout: expected an interval longer than 0, at most 100 years'
        WHEN expires <= '0' OR extract(epoch FROM expires) > 3162240000 THEN 'expires: expected an interval longer than 0, at most 100 years'
        WHEN NOT rota.is_word(coalesce(owner, '')) THEN 'owner ' || coalesce('''' || rota.one_line(owner) || '''', 'NULL') || ': expected letters, digits and -_.@, at most 100'
        WHEN NOT rota.is_word(queue) THEN 'queue ''' || rota.one_line(queue) || ''': expected letters, digits and -_.@, at most 100'
        WHEN NOT (length(key) BETWEEN 1 AND 255 AND rota.is_printable(key)) THEN 'key ''' || rota.one_line(key) || ''': expected a text of 1 to 255 printable characters'
    END;
    IF complaint IS NOT NULL THEN
        RAISE EXCEPTION USING MESSAGE = complaint, ERRCODE = 'invalid_parameter_value';
    END IF;
    body := '{"name":' || to_json(task)::text
            || coalesce(',"secrets":' || to_json(nullif(ARRAY(SELECT jsonb_array_elements_text(info -> 'secrets')), '{}'))::text, '') || '}';
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
        RAISE EXCEPTION 'key ''%'' was used before for another order (job %)', rota.one_line(key), answer ->> 'job'
            USING ERRCODE = 'unique_violation';
    END IF;
    RETURN (answer #>> '{jobs,0,0}')::uuid;
END $$;
