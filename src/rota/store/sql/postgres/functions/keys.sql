-- Refuses unreadable requirements when they are written, since anyone with access to the tables may write them. They
-- would fail every claim and every settlement that reads them, and a job with the same key twice would wait for itself.
CREATE OR REPLACE FUNCTION rota.check_requirements() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    given jsonb := NEW.requirements::jsonb;
    keys  jsonb := coalesce(given -> 'keys', '[]');
    alone jsonb := given -> 'alone';
BEGIN
    IF jsonb_typeof(given) <> 'object' OR jsonb_typeof(keys) <> 'array' OR alone IS NOT NULL AND (
           jsonb_typeof(alone) <> 'object' OR coalesce(alone ->> 'drain', '') !~ '^[0-9]{1,17}$'
           OR coalesce(alone ->> 'cancel', 'false') NOT IN ('true', 'false'))
       OR jsonb_typeof(given -> 'flow') NOT IN ('string', 'null') OR length(given ->> 'flow') NOT BETWEEN 1 AND 200 THEN
        RAISE EXCEPTION 'requirements %: expected labels, keys, alone and flow', left(NEW.requirements, 200) USING ERRCODE = 'check_violation';
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
        IF EXISTS (SELECT FROM old_jobs WHERE special AND state <> 'running') THEN   -- a job that ran has no row in `wanted`
            DELETE FROM rota.wanted w USING old_jobs o WHERE o.special AND o.state <> 'running' AND w.job = o.id;
        END IF;
        UPDATE rota.gates g SET opened_at = rota.clock(NULL) FROM old_jobs o WHERE o.special AND g.job = o.id AND g.opened_at IS NULL;
    END IF;
    RETURN NULL;
END $$;
