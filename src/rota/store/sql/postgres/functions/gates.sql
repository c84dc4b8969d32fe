-- For claims: the gates that are closed, as of after the lock was taken (VOLATILE: the claim itself may have begun before).
CREATE OR REPLACE FUNCTION rota.closed_gates(given bigint) RETURNS SETOF rota.gates LANGUAGE plpgsql VOLATILE ROWS 10 AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(rota.claims_lock());
    RETURN QUERY SELECT * FROM rota.gates g WHERE g.opened_at IS NULL AND (g.until IS NULL OR g.until > rota.clock(given));
END $$;

-- Holds and drops what closed gates fit, in the order of ids; lets go, lowest rank first, what opened ones held.
CREATE OR REPLACE FUNCTION rota.sweep_gates(given bigint, most integer, OUT moved bigint, OUT next_at bigint, OUT more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := rota.clock(given);
    gate   rota.gates;
    batch  uuid[];
    hits   uuid[];
    n      bigint;
BEGIN
    -- A claim may have held a job by a gate that was opened and gone before the claim was committed.
    WITH RECURSIVE known(line) AS (
        (SELECT j.held_by FROM rota.jobs j WHERE j.held_by >= 'g:' AND j.held_by < 'g;' ORDER BY j.held_by LIMIT 1)
        UNION ALL
        SELECT (SELECT j.held_by FROM rota.jobs j WHERE j.held_by > known.line AND j.held_by < 'g;' ORDER BY j.held_by LIMIT 1)
        FROM known WHERE known.line IS NOT NULL
    ), next AS MATERIALIZED (
        SELECT one.id FROM known
        CROSS JOIN LATERAL (SELECT j.id FROM rota.jobs j WHERE j.held_by = known.line ORDER BY j.rank, j.id LIMIT most
                            FOR UPDATE SKIP LOCKED) one
        WHERE known.line IS NOT NULL AND NOT EXISTS (SELECT FROM rota.gates g WHERE 'g:' || g.id = known.line)
    ), going AS (
        UPDATE rota.jobs j SET state = 'ready', held_by = NULL, reason = NULL FROM next WHERE j.id = next.id RETURNING 1
    )
    SELECT count(*), count(*) >= most INTO moved, more FROM going;
    FOR gate IN SELECT * FROM rota.gates g ORDER BY g.created_at, g.id FOR UPDATE SKIP LOCKED LOOP
        IF gate.opened_at IS NULL AND (gate.until IS NULL OR gate.until > moment) THEN
            next_at := least(next_at, gate.until);
            SELECT array_agg(b.id ORDER BY b.id) INTO batch FROM (
                SELECT j.id FROM rota.jobs j WHERE j.id > gate.swept ORDER BY j.id LIMIT most) b;
            CONTINUE WHEN batch IS NULL;
            SELECT coalesce(array_agg(h.id), '{}') INTO hits FROM (
                SELECT j.id FROM rota.jobs j
                WHERE j.id = ANY (batch) AND j.id IS DISTINCT FROM gate.job AND (j.state = 'ready' OR gate.effect = 'drop' AND j.node IS NULL)
                  AND rota.fits(gate, j.owner, j.task, j.queue, j.requirements)
                ORDER BY j.id FOR UPDATE SKIP LOCKED) h;
            IF gate.effect = 'drop' THEN
                n := rota.put_away(hits, 'dropped', array_fill(gate.reason, ARRAY[cardinality(hits)]), moment);
            ELSE
                UPDATE rota.jobs j SET state = 'held', held_by = 'g:' || gate.id, reason = gate.reason WHERE j.id = ANY (hits);
                UPDATE rota.gates g SET opened_at = moment WHERE g.job = ANY (hits) AND g.opened_at IS NULL;   -- meanwhile the others may run
                n := cardinality(hits);
            END IF;
            UPDATE rota.gates g SET swept = batch[cardinality(batch)], dropped = dropped + CASE WHEN gate.effect = 'drop' THEN n ELSE 0 END
            WHERE g.id = gate.id;
            more := more OR cardinality(batch) = most;
        ELSE
            WITH next AS (
                SELECT j.id FROM rota.jobs j WHERE j.held_by = 'g:' || gate.id
                ORDER BY j.rank, j.id LIMIT most FOR UPDATE SKIP LOCKED
            ), going AS (
                UPDATE rota.jobs j SET state = 'ready', held_by = NULL, reason = NULL FROM next WHERE j.id = next.id RETURNING 1
            )
            SELECT count(*) INTO n FROM going;
            IF n < most AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.held_by = 'g:' || gate.id) THEN
                DELETE FROM rota.gates g WHERE g.id = gate.id;
            ELSE
                more := true;
            END IF;
        END IF;
        moved := moved + n;
    END LOOP;
END $$;
