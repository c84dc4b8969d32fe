-- How much room a key has, by the rules of `model.limits` (effective, slack) and `model.keys` (KeyState.room, token_counts), for sets of
-- jobs. tests/store/postgres/test_admission_rules.py holds these functions against the model.

-- The keys that a job needs, with their effective bounds; the quota of its user for running jobs is one of them. The window includes the slack between a token and the real
-- start: the last start may be late, and the next one early.
CREATE OR REPLACE FUNCTION rota.keys_of(owner text, requirements text)
RETURNS TABLE (key text, concurrency integer, starts integer, span bigint, slack bigint, policy text)
LANGUAGE sql STABLE AS $$
    SELECT one.key, one.concurrency, one.starts, one.span, least(greatest(one.span / 20, 20000), 500000), one.policy
    FROM (SELECT k.body ->> 0 AS key, coalesce(k.body ->> 3, 'wait') AS policy,
                 CASE WHEN l.key IS NULL THEN (k.body ->> 1)::integer ELSE l.concurrency END AS concurrency,
                 CASE WHEN l.key IS NULL THEN (k.body #>> '{2,0}')::integer ELSE l.starts END AS starts,
                 CASE WHEN l.key IS NULL THEN (k.body #>> '{2,1}')::bigint ELSE l.span END AS span
          FROM jsonb_array_elements(keys_of.requirements::jsonb -> 'keys') AS k(body)
          -- (OFFSET 0: one look-up per row, whatever the planner's statistics say.)
          LEFT JOIN LATERAL (SELECT * FROM rota.limits WHERE owner = keys_of.owner AND key = k.body ->> 0 OFFSET 0) l ON true
          WHERE k.body ->> 0 <> ' running'
          UNION ALL
          SELECT q.key, 'wait', q.concurrency, NULL, NULL FROM rota.running_quotas q WHERE q.owner = keys_of.owner) one $$;

-- As `model.keys.waits_for`.
CREATE OR REPLACE FUNCTION rota.waits_for(key text) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN key = ' running' THEN 'waits for the quota of running jobs' ELSE 'waits for key ' || key END $$;

-- The keys that these jobs need, one row each (a job that needs none has one without), with how much room there is: how
-- many more may hold the key, and start now, by the window of the job that asks; NULL: any number. One place is
-- reserved for a job that waits for several keys and is in line or among these jobs. A released job reserves nothing:
-- it may never be claimed, and the key would lie idle.
CREATE OR REPLACE FUNCTION rota.needs(ids uuid[], moment bigint)
RETURNS TABLE (job uuid, owner text, rank bigint, fence bigint, key text, concurrency integer, starts integer, span bigint,
               slack bigint, policy text, room bigint)
LANGUAGE sql STABLE AS $$
    SELECT j.id, j.owner, j.rank, j.fence, k.key, k.concurrency, k.starts, k.span,
           least(k.slack << least(j.interruptions, 6)::integer, 2000000), k.policy,   -- a job that came too late gets more time
           least(k.concurrency - (SELECT count(*) FROM rota.slots s
                                  WHERE k.concurrency IS NOT NULL AND s.owner = j.owner AND s.key = k.key),
                 k.starts - (SELECT count(*) FROM rota.starts t
                             WHERE k.starts IS NOT NULL AND t.owner = j.owner AND t.key = k.key
                               AND t.at > moment - k.span - 2000000 AND t.at + t.late + k.span > moment))
           - (SELECT count(*) FROM (
                 SELECT FROM rota.wanted w WHERE w.owner = j.owner AND w.key = k.key AND w.latest < j.rank AND w.job <> j.id
                   AND EXISTS (SELECT FROM rota.jobs h WHERE h.id = w.job AND (h.state = 'held' AND h.held_by LIKE 'k:%' OR h.id = ANY (ids)) OFFSET 0)
                 ORDER BY w.latest LIMIT 1) one)
    FROM rota.jobs j LEFT JOIN LATERAL rota.keys_of(j.owner, j.requirements) k ON true
    WHERE j.id = ANY (ids) $$;
