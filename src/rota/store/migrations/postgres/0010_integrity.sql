-- works with: 7

-- Jobs that run alone, proved by locks; orders by SQL are checked; keys of one call are locked in order.

-- A job that is to run alone closes a gate. A claim that looked at the gates before that gate was committed doesn't know of it and
-- may still start something. So every claim holds a lock, shared, from before its look at the gates until its transaction has
-- ended. Once the gate is committed, the holders of that lock are written down here (NULL: not yet), and taken off the list as
-- they end. When none is left, whatever they started can be seen, and all later claims know of the gate. Nobody takes the lock
-- exclusively: a claim that hangs holds up the lone job, and no other claim.
ALTER TABLE rota.gates ADD COLUMN claims text[];
-- Claims of nodes of schema 7 don't hold that lock. While one of them lives, a lone job waits for half a second as well, as it did before.
ALTER TABLE rota.nodes ADD COLUMN locks_claims boolean NOT NULL DEFAULT false;

CREATE FUNCTION rota.claims_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended('rota' || ' claims', 0) $$;

-- For claims: the gates that are closed, as of after the lock was taken (VOLATILE: the claim itself may have begun before).
CREATE FUNCTION rota.closed_gates(given bigint) RETURNS SETOF rota.gates LANGUAGE plpgsql VOLATILE ROWS 10 AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(rota.claims_lock());
    RETURN QUERY SELECT * FROM rota.gates g WHERE g.opened_at IS NULL AND (g.until IS NULL OR g.until > rota.clock(given));
END $$;

-- The transactions of claims that have looked at the gates and not ended yet.
CREATE FUNCTION rota.claims_under_way() RETURNS text[] LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(array_agg(DISTINCT l.virtualtransaction), '{}') FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND l.classid = ((rota.claims_lock() >> 32) & 4294967295)::oid AND l.objid = (rota.claims_lock() & 4294967295)::oid
      AND l.objsubid = 1 $$;

-- Whether nothing runs beside a job that wants to be alone, and nothing can any more.
CREATE OR REPLACE FUNCTION rota.is_alone(job uuid, moment bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM rota.gates g WHERE g.job = is_alone.job AND g.opened_at IS NULL AND g.claims = '{}'
           AND (g.created_at + 500000 <= moment
                OR NOT EXISTS (SELECT FROM rota.nodes n WHERE n.state IN ('live', 'stopping') AND NOT n.locks_claims))
           AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.node IS NOT NULL AND j.id <> is_alone.job
                             AND rota.fits(g, j.owner, j.task, j.queue, j.requirements))) $$;

-- Lets jobs go on that are alone by now. At its deadline a job yields and tries again later, or has the others cancelled.
CREATE OR REPLACE FUNCTION rota.sweep_alone(given bigint, OUT moved bigint, OUT cancelled bigint, OUT next_at bigint) LANGUAGE plpgsql AS $$
DECLARE
    moment    bigint := rota.clock(given);
    under_way text[];
    one       record;
    n         bigint;
BEGIN
    moved := 0; cancelled := 0;
    FOR one IN
        SELECT j.id, g.id AS gate, (j.requirements::jsonb #>> '{alone,cancel}')::boolean AS cancel,
               (j.requirements::jsonb #>> '{alone,drain}')::bigint AS drain, g.created_at AS since, g.claims
        FROM rota.jobs j LEFT JOIN rota.gates g ON g.job = j.id AND g.opened_at IS NULL
        WHERE j.held_by >= 'a:' AND j.held_by < 'a;' AND j.state = 'held' ORDER BY j.rank, j.id LIMIT 1000 FOR UPDATE OF j SKIP LOCKED
    LOOP
        IF one.gate IS NOT NULL AND one.claims IS DISTINCT FROM '{}' THEN
            -- (Read after the gate was seen, so after it was committed.)
            under_way := coalesce(under_way, rota.claims_under_way());
            UPDATE rota.gates g SET claims = ARRAY(SELECT unnest(coalesce(one.claims, under_way)) INTERSECT SELECT unnest(under_way))
            WHERE g.id = one.gate;
            next_at := least(next_at, moment + 50000);
        END IF;
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

-- What an order by SQL says is held against the rules of Python orders: `model.limits.word` for users and queues, `options` for the
-- rest. (Of letters beyond ASCII all that are printable will do: the locale of the database may know none.)
CREATE FUNCTION rota.is_printable(given text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT given !~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb]' $$;

CREATE FUNCTION rota.is_word(given text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT length(given) BETWEEN 1 AND 100 AND given ~ '^([0-9A-Za-z_.@-]|[^\u0001-\u007f])+$' AND rota.is_printable(given) $$;

-- A caller's text for an error message: at most 80 characters, and none that would break the line.
CREATE FUNCTION rota.one_line(given text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE WHEN length(line) > 80 THEN left(line, 77) || '...' ELSE line END FROM (
        SELECT string_agg(CASE WHEN rota.is_printable(c) THEN c ELSE '\u' || lpad(to_hex(ascii(c)), 4, '0') END, '' ORDER BY n)
        FROM regexp_split_to_table(left(given, 81), '') WITH ORDINALITY AS one(c, n)) AS escaped(line) $$;

-- As `work.catalogue.fits`. `kinds`: a list of words of JSON Schema; NULL or empty: anything will do. The node reads 7.0 as a float.
CREATE FUNCTION rota.check_type(task text, name text, value jsonb, kinds jsonb) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF jsonb_array_length(kinds) > 0 AND NOT kinds ? jsonb_typeof(value)
       AND NOT (kinds ? 'integer' AND CASE WHEN jsonb_typeof(value) = 'number' THEN scale(value::numeric) = 0 ELSE false END) THEN
        RAISE EXCEPTION 'task ''%'': ''%'' must be %, not %', rota.one_line(task), rota.one_line(name),
            (SELECT string_agg(kind, ' or ') FROM jsonb_array_elements_text(kinds) AS one(kind)), rota.one_line(value::text)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

-- A template of a key with arguments filled in, as `model.limits.fill` does it.
CREATE OR REPLACE FUNCTION rota.fill(template text, args jsonb) RETURNS text LANGUAGE plpgsql STABLE STRICT AS $$
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

-- One job, from any language that speaks SQL. What is not given is taken from the task's own options.
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
        RAISE EXCEPTION 'key ''%'' was used before for another order (job %)', rota.one_line(key), answer ->> 'job'
            USING ERRCODE = 'unique_violation';
    END IF;
    RETURN (answer #>> '{jobs,0,0}')::uuid;
END $$;

-- Several orders in one call. Each takes its keys in their order; but one order after the other, two calls could take the same
-- keys the other way round and lock each other up. So all keys of a call are taken first, in their order: whoever else wants to
-- insert one of them waits until this transaction has ended, also when the row is deleted again.
CREATE FUNCTION rota.take_keys(by text, names text[]) RETURNS void LANGUAGE plpgsql AS $$
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

CREATE FUNCTION rota.accept_all(by text, orders jsonb[], key_life bigint, step bigint, given bigint) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
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
