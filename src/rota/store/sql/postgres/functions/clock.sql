-- The one clock. A given instant takes its place in tests and simulations.
CREATE OR REPLACE FUNCTION rota.clock(given bigint) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(given, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint) $$;

-- The server and its current run, as a text: advisory locks last as long as a run.
CREATE OR REPLACE FUNCTION rota.server() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
    start bigint := (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN start;
    END IF;
    RETURN start || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
                 || '/' || coalesce((SELECT token::text FROM rota.boot), '');
END $$;

-- A UUIDv7: milliseconds, version, randomness.
CREATE OR REPLACE FUNCTION rota.new_id(moment bigint) RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT (lpad(to_hex(moment / 1000), 12, '0') || '7' || substr(random, 14, 3) || substr(random, 17))::uuid
    FROM (SELECT replace(gen_random_uuid()::text, '-', '') AS random) one $$;

-- The length of an interval.
CREATE OR REPLACE FUNCTION rota.microseconds(span interval) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (extract(epoch FROM span) * 1000000)::bigint $$;
