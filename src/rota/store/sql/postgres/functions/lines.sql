-- Lets jobs go on that wait for keys: of the keys on the list, or of every key that a job waits for. As many as there
-- is room for (`model.keys.going_on`), less jobs that were released and not claimed yet; a look at every key ignores
-- these, as perhaps no node claims them. tests/store/postgres/test_admission_rules.py holds it against the model.
CREATE OR REPLACE FUNCTION rota.hand_on(every boolean, given bigint, most integer,
                             OUT moved bigint, OUT next_at bigint, OUT more boolean)
LANGUAGE plpgsql AS $$
DECLARE
    moment bigint := rota.clock(given);
    lines  text[];
BEGIN
    IF every THEN
        WITH RECURSIVE known(line) AS (
            (SELECT j.held_by FROM rota.jobs j WHERE j.held_by >= 'k:' AND j.held_by < 'k;' ORDER BY j.held_by LIMIT 1)
            UNION ALL
            SELECT (SELECT j.held_by FROM rota.jobs j WHERE j.held_by > known.line AND j.held_by < 'k;' ORDER BY j.held_by LIMIT 1)
            FROM known WHERE known.line IS NOT NULL
        )
        SELECT array_agg(k.line) INTO lines FROM known k WHERE k.line IS NOT NULL;
    ELSE
        WITH chosen AS MATERIALIZED (
            SELECT f.number FROM rota.freed f ORDER BY f.number LIMIT 1000 FOR UPDATE SKIP LOCKED
        ), taken AS (
            DELETE FROM rota.freed f USING chosen WHERE f.number = chosen.number RETURNING f.held_by
        )
        SELECT array_agg(DISTINCT held_by) INTO lines FROM taken;
    END IF;
    WITH first AS MATERIALIZED (
        -- The first in line may no longer need the key: then it has no bound.
        SELECT wanted.line, head.id, head.owner, head.rank, k.*
        FROM unnest(lines) AS wanted(line)
        CROSS JOIN LATERAL (SELECT j.id, j.owner, j.requirements, j.rank FROM rota.jobs j WHERE j.held_by = wanted.line AND j.state = 'held'
                            ORDER BY j.rank, j.id LIMIT 1) head
        LEFT JOIN LATERAL rota.keys_of(head.owner, head.requirements) k ON 'k:' || head.owner || ':' || k.key = wanted.line
    ), room AS MATERIALIZED (
        -- As in `needs`, of one key only.
        SELECT f.line, f.owner, f.key, f.starts, f.span,
               least(f.concurrency - (SELECT count(*) FROM rota.slots s
                                      WHERE f.concurrency IS NOT NULL AND s.owner = f.owner AND s.key = f.key),
                     f.starts - (SELECT count(*) FROM rota.starts t
                                 WHERE f.starts IS NOT NULL AND t.owner = f.owner AND t.key = f.key
                                   AND t.at > moment - f.span - 2000000 AND t.at + t.late + f.span > moment))
               - (SELECT count(*) FROM (
                     SELECT FROM rota.wanted w WHERE w.owner = f.owner AND w.key = f.key AND w.latest < f.rank AND w.job <> f.id
                       AND EXISTS (SELECT FROM rota.jobs h WHERE h.id = w.job AND h.state = 'held' AND h.held_by LIKE 'k:%' OFFSET 0)
                     ORDER BY w.latest LIMIT 1) one)
               - CASE WHEN every THEN 0 ELSE (SELECT count(*) FROM rota.jobs j WHERE j.held_by = f.line AND j.state = 'ready') END AS room
        FROM first f
    ), next AS MATERIALIZED (
        SELECT n.id FROM room r
        CROSS JOIN LATERAL (SELECT j.id FROM rota.jobs j WHERE j.held_by = r.line AND j.state = 'held' ORDER BY j.rank, j.id
                            LIMIT least(coalesce(r.room, most), most) FOR UPDATE SKIP LOCKED) n
        WHERE r.room IS NULL OR r.room > 0
    ), going AS (
        UPDATE rota.jobs j SET state = 'ready', reason = NULL FROM next WHERE j.id = next.id RETURNING 1
    ), kept AS (
        -- Tokens are kept for as long as the first waiter's window looks back.
        UPDATE rota.starts s SET until = s.at + s.late + r.span FROM room r
        WHERE r.starts IS NOT NULL AND r.span > 600000000 AND s.owner = r.owner AND s.key = r.key AND s.until < s.at + s.late + r.span
    )
    SELECT (SELECT count(*) FROM going), coalesce((SELECT count(*) >= most FROM next), false) AND EXISTS (SELECT FROM room WHERE room IS NULL),
           (SELECT min((SELECT t.at + t.late + r.span FROM rota.starts t WHERE t.owner = r.owner AND t.key = r.key
                          AND t.at > moment - r.span - 2000000 AND t.at + t.late + r.span > moment
                        ORDER BY t.at + t.late DESC OFFSET r.starts - 1 LIMIT 1))
            FROM room r WHERE r.room <= 0 AND r.starts IS NOT NULL)
    INTO moved, more, next_at;
    more := more OR (NOT every AND EXISTS (SELECT FROM rota.freed));
END $$;
