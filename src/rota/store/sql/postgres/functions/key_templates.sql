-- Keys of orders by SQL, by the rules of `model.limits` (fill, keys). tests/store/postgres/test_rules.py holds them against the model.

-- A template of a key with arguments filled in, by the rule of `model.limits.fill`.
CREATE OR REPLACE FUNCTION rota.fill(template text, args jsonb) RETURNS text LANGUAGE plpgsql STABLE STRICT AS $$
DECLARE
    piece text;
    part  text;
    value jsonb;
    name  text := '';
BEGIN
    IF length(template) > 1000 OR template !~ '^([^{}]|\{\{|\}\}|\{([0-9A-Za-z_-]|[^\u0001-\u007f])+(\.([0-9A-Za-z_-]|[^\u0001-\u007f])+)*\})*$' THEN
        RAISE EXCEPTION 'key ''%'': expected a text with fields such as user:{user_id}; braces of its own are doubled', rota.one_line(template)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR piece IN SELECT m[1] FROM regexp_matches(template, '(\{\{|\}\}|\{[^{}]+\}|[^{}]+)', 'g') AS m LOOP
        IF piece IN ('{{', '}}') THEN
            name := name || left(piece, 1);
        ELSIF left(piece, 1) = '{' THEN
            value := args;
            FOREACH part IN ARRAY string_to_array(btrim(piece, '{}'), '.') LOOP
                value := CASE WHEN jsonb_typeof(value) = 'object' THEN value -> part END;   -- (not into a list by its number)
            END LOOP;
            IF jsonb_typeof(value) IS NULL OR jsonb_typeof(value) NOT IN ('string', 'number', 'boolean') OR value::text ~ '^-?[0-9]*[.eE]' THEN
                RAISE EXCEPTION 'field % of the key: expected a text, a whole number or true or false among the arguments', rota.one_line(piece)
                    USING ERRCODE = 'invalid_parameter_value';
            END IF;
            name := name || (value #>> '{}');
        ELSE
            name := name || piece;
        END IF;
    END LOOP;
    IF NOT (length(name) BETWEEN 1 AND 200 AND rota.is_printable(name) AND name = btrim(name)) THEN
        RAISE EXCEPTION 'key ''%'': expected 1 to 200 printable characters without blanks around them', rota.one_line(name)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN name;
END $$;

-- The requirements of an order that come from its task's options.
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
    -- Of two limits with the same name the stricter counts, as in `model.limits.keys`.
    SELECT jsonb_agg(jsonb_build_array(m.key, m.concurrency, m.rate, full_) ORDER BY m.key COLLATE "C") INTO keys FROM (
        SELECT k.key, min((k.concurrency #>> '{}')::integer) AS concurrency,
               (array_agg(k.rate ORDER BY (k.rate ->> 0)::numeric / (k.rate ->> 1)::numeric, (k.rate ->> 0)::integer)
                FILTER (WHERE jsonb_typeof(k.rate) = 'array'))[1] AS rate FROM (
        SELECT rota.fill(info ->> 'exclusive', args) AS key, '1'::jsonb AS concurrency, 'null'::jsonb AS rate WHERE info ->> 'exclusive' IS NOT NULL
        UNION ALL
        SELECT rota.fill(l ->> 0, args), coalesce(l -> 1, 'null'), coalesce(l -> 2, 'null') FROM jsonb_array_elements(info -> 'limits') AS one(l)
        UNION ALL
        SELECT 'task:' || name, 'null', info -> 'rate' WHERE jsonb_typeof(info -> 'rate') = 'array') k GROUP BY k.key) m;
    requirements := jsonb_strip_nulls(jsonb_build_object('labels', nullif(info -> 'labels', '[]'), 'keys', keys, 'flow', rota.fill(info ->> 'flow', args)));
    IF requirements = '{}' THEN
        RETURN requirements;
    END IF;
    RETURN jsonb_build_object('requirements', requirements::text, 'special', keys IS NOT NULL)
           || CASE WHEN keys IS NOT NULL AND full_ = 'wait' THEN jsonb_build_object('line', keys #>> '{0,0}') ELSE '{}' END;
END $$;
