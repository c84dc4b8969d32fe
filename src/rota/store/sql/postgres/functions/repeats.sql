-- Takes an idempotency key for the rest of the transaction, and returns the row that an earlier try has left. If another
-- transaction has the key, it says so instead of waiting. Each statement has a snapshot of its own, so the row of a try
-- that was committed just before the key was taken is seen.
CREATE OR REPLACE FUNCTION rota.hold_repeat(whose text, given text, place integer, moment bigint)
RETURNS TABLE (free boolean, route text, digest text, content bytea) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('repeat ' || whose || ' ' || given, 7)) THEN
        RETURN QUERY SELECT false, NULL::text, NULL::text, NULL::bytea;
        RETURN;
    END IF;
    RETURN QUERY SELECT true, r.route, r.digest, r.content FROM rota.repeats r
                 WHERE r.owner = whose AND r.key = given AND r.step = place AND r.expires_at > rota.clock(moment);
END $$;
