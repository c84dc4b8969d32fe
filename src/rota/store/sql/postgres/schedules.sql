-- name: reopen_fires
-- The new overlap policy may depend on live jobs of the schedule.
UPDATE rota.fires f SET open = true FROM rota.jobs j
WHERE f.owner = :owner AND f.name = :name AND NOT f.open AND j.id = f.job_id

-- name: fire_plainly
-- The usual step: one fire, no skipped fires, no regard to other fires of the schedule. One statement saves round
-- trips, and a client that is stopped half-way holds no lock.
WITH moment AS MATERIALIZED (
    SELECT rota.clock(:now) AS now
), standing AS MATERIALIZED (
    SELECT wanted.*
    FROM unnest(:owners::text[], :names::text[], :revisions::bigint[], :cursors::bigint[], :fires::bigint[], :limits::bigint[],
                :nexts::bigint[], :times::bigint[], :expiries::bigint[], :told::text[],
                {jobs.given[]})
         WITH ORDINALITY AS wanted(owner, name, revision, handled, fire, most, next_at, at, expires, told, {jobs.given}, place)
    CROSS JOIN moment
    JOIN rota.schedules s ON s.owner = wanted.owner AND s.name = wanted.name
    WHERE s.revision = wanted.revision AND s.handled = wanted.handled AND s.next_at + 0 <= moment.now AND wanted.fire <= moment.now
    FOR UPDATE OF s SKIP LOCKED
), made AS (
    INSERT INTO rota.fires (owner, name, fire, job_id, kind, at, open, waiting)
    SELECT owner, name, fire, id, 'rule', moment.now, false, false FROM standing, moment
    ON CONFLICT (owner, name, fire) DO NOTHING RETURNING job_id
), ordered AS (
    INSERT INTO rota.jobs ({jobs.inserted})
    SELECT {jobs.inserted; state = CASE WHEN due <= moment.now THEN 'ready' ELSE 'scheduled' END; rank = due + priority * :step::bigint;
            run_at = due; expires_at = due + expires; created_at = moment.now}
    FROM (SELECT *, greatest(coalesce(at, now), now) AS due FROM standing, moment) AS one, moment
    WHERE CASE WHEN id IN (SELECT job_id FROM made) THEN true ELSE false END   -- CASE: looked up, not joined
), told AS (
    INSERT INTO rota.outbox (at, kind, owner, subject, data)
    SELECT moment.now, 'schedule.fired', owner, name, told FROM standing, moment
    WHERE CASE WHEN id IN (SELECT job_id FROM made) THEN true ELSE false END
), moved AS (
    UPDATE rota.schedules s
    SET handled = one.fire, fired = s.fired + one.counts, last_fire = one.fire, last_job = one.id,
        next_at = CASE WHEN one.most <= s.fired + one.counts THEN NULL ELSE one.next_at END
    FROM (SELECT *, CASE WHEN id IN (SELECT job_id FROM made) THEN 1 ELSE 0 END AS counts FROM standing) AS one
    WHERE s.owner = one.owner AND s.name = one.name
)
SELECT place - 1, CASE WHEN id IN (SELECT job_id FROM made) THEN true ELSE false END,
       coalesce(at, 0) > moment.now OR expires IS NOT NULL
FROM standing, moment

-- name: open_fires
SELECT f.owner, f.name, f.job_id::text, f.kind, j.id IS NOT NULL
FROM unnest(:owners::text[], :names::text[]) AS wanted(owner, name)
JOIN rota.fires f ON f.owner = wanted.owner AND f.name = wanted.name AND f.open
LEFT JOIN rota.jobs j ON j.id = f.job_id

-- name: known_jobs
-- Jobs of fires that still exist, though the row of the fire may be gone.
SELECT id::text FROM rota.jobs WHERE id = ANY (:ids::uuid[])
UNION ALL
SELECT id::text FROM rota.history WHERE id = ANY (:ids::uuid[])

-- name: insert_fires
INSERT INTO rota.fires (owner, name, fire, job_id, kind, at, open, waiting)
SELECT owner, name, fire, job_id, :kind, rota.clock(:now), open, false
FROM unnest(:owners::text[], :names::text[], :fires::bigint[], :ids::uuid[], :open::boolean[])
     AS new(owner, name, fire, job_id, open)
ORDER BY owner, name, fire
ON CONFLICT (owner, name, fire) DO NOTHING RETURNING job_id::text

-- name: free_fires
-- The first of each schedule with fires that wait and none that runs or may run. A locked fire is being freed by another node.
WITH ready AS MATERIALIZED (
    SELECT DISTINCT ON (f.owner, f.name) f.owner, f.name, f.fire FROM rota.fires f
    WHERE f.waiting AND NOT EXISTS (SELECT FROM rota.fires o JOIN rota.jobs j ON j.id = o.job_id
                                    WHERE o.owner = f.owner AND o.name = f.name AND o.open AND NOT o.waiting)
      AND EXISTS (SELECT FROM rota.jobs j WHERE j.id = f.job_id)
    ORDER BY f.owner, f.name, f.fire LIMIT :limit::integer
), chosen AS MATERIALIZED (
    SELECT f.job_id FROM rota.fires f JOIN ready USING (owner, name, fire)
    WHERE f.waiting FOR UPDATE OF f SKIP LOCKED
)
UPDATE rota.fires f SET waiting = false FROM chosen WHERE f.job_id = chosen.job_id RETURNING f.job_id::text

-- name: close_ended
-- Fires whose jobs have ended, of schedules with waiting fires.
UPDATE rota.fires f SET open = false, waiting = false
WHERE f.open AND (f.owner, f.name) IN (SELECT w.owner, w.name FROM rota.fires w WHERE w.waiting)
  AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = f.job_id)

-- name: fire_rows
SELECT f.fire, f.fire AS last, 1::bigint, f.at, f.kind, NULL::text, f.job_id::text, coalesce(j.state, h.state)
FROM (SELECT * FROM rota.fires WHERE owner = :owner AND name = :name AND fire < :before::bigint
      ORDER BY fire DESC LIMIT :limit::integer) AS f
LEFT JOIN rota.jobs j ON j.id = f.job_id
LEFT JOIN rota.history h ON h.id = f.job_id

-- name: delete_old_fires
DELETE FROM rota.fires WHERE (owner, name, fire) IN (
    SELECT owner, name, fire FROM rota.fires f
    WHERE at < rota.clock(:now) - :age::bigint AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = f.job_id)
    ORDER BY at LIMIT :limit)
