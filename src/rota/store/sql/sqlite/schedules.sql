-- name: reopen_fires
-- The new overlap policy may depend on live jobs of the schedule.
UPDATE fires SET open = 1
WHERE owner = :owner AND name = :name AND NOT open
  AND job_id IN (SELECT j.id FROM jobs j WHERE j.id = fires.job_id AND j.finished_at IS NULL)

-- name: next_schedule
SELECT min(next_at) FROM schedules WHERE next_at IS NOT NULL

-- name: open_fires
-- Of these schedules (owner, name, all): the fires that go on and the first few waiting ones, or all; and whether their
-- jobs live.
SELECT f.owner, f.name, f.job_id, f.kind, j.id IS NOT NULL
FROM json_each(:rows) wanted
CROSS JOIN fires f INDEXED BY fires_going ON f.owner = wanted.value ->> 'owners' AND f.name = wanted.value ->> 'names'
LEFT JOIN jobs j ON j.id = f.job_id AND j.finished_at IS NULL
WHERE f.open AND NOT f.waiting
UNION ALL
SELECT f.owner, f.name, f.job_id, f.kind, j.id IS NOT NULL
FROM json_each(:rows) wanted
CROSS JOIN fires f INDEXED BY fires_waiting ON f.owner = wanted.value ->> 'owners' AND f.name = wanted.value ->> 'names'
LEFT JOIN jobs j ON j.id = f.job_id AND j.finished_at IS NULL
WHERE f.waiting AND f.fire <= coalesce(iif(wanted.value ->> 'all', NULL, (
    SELECT w.fire FROM fires w INDEXED BY fires_waiting
    WHERE w.owner = wanted.value ->> 'owners' AND w.name = wanted.value ->> 'names' AND w.waiting ORDER BY w.fire LIMIT 1 OFFSET :few - 1
)), 9223372036854775807)

-- name: known_jobs
SELECT j.id FROM json_each(:ids) wanted CROSS JOIN jobs j ON j.id = wanted.value

-- name: insert_fires
-- A fire that was made before stays as it was. Its row shows that, or its job, which may outlive the row.
INSERT INTO fires (owner, name, fire, job_id, kind, at, open, waiting)
SELECT value ->> 'owners', value ->> 'names', value ->> 'fires', value ->> 'ids', :kind, :now, value ->> 'open', 0 FROM json_each(:rows)
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = value ->> 'ids')
ON CONFLICT (owner, name, fire) DO NOTHING RETURNING job_id

-- name: close_ended
-- Fires whose jobs have ended, of schedules with waiting fires; of the waiting ones only those before the first live
-- one.
UPDATE fires SET open = 0, waiting = 0 WHERE job_id IN (
    WITH line AS MATERIALIZED (
        SELECT w.owner, w.name, (SELECT f.fire FROM fires f INDEXED BY fires_waiting CROSS JOIN jobs j ON j.id = f.job_id
                                 WHERE f.owner = w.owner AND f.name = w.name AND f.waiting AND j.finished_at IS NULL
                                 ORDER BY f.fire LIMIT 1) AS first
        FROM (SELECT DISTINCT owner, name FROM fires WHERE waiting) w
    )
    SELECT f.job_id FROM line CROSS JOIN fires f INDEXED BY fires_going ON f.owner = line.owner AND f.name = line.name
    WHERE f.open AND NOT f.waiting AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = f.job_id AND j.finished_at IS NULL)
    UNION ALL
    SELECT f.job_id FROM line CROSS JOIN fires f INDEXED BY fires_waiting ON f.owner = line.owner AND f.name = line.name
    WHERE f.waiting AND f.fire < coalesce(line.first, 9223372036854775807))

-- name: free_fires
-- The first of each schedule with fires that wait and none that runs or may run. `close_ended` has closed the others.
UPDATE fires SET waiting = 0
FROM (SELECT w.owner, w.name, min(w.fire) AS fire FROM fires w INDEXED BY fires_waiting WHERE w.waiting GROUP BY w.owner, w.name
      HAVING NOT EXISTS (SELECT 1 FROM fires g INDEXED BY fires_going
                         WHERE g.owner = w.owner AND g.name = w.name AND g.open AND NOT g.waiting)
      LIMIT :limit) AS first
WHERE fires.owner = first.owner AND fires.name = first.name AND fires.fire = first.fire
RETURNING job_id

-- name: any_waiting
SELECT EXISTS (SELECT 1 FROM fires WHERE waiting)

-- name: fire_rows
SELECT f.fire, f.fire AS last, 1, f.at, f.kind, NULL, f.job_id, j.state
FROM fires f LEFT JOIN jobs j ON j.id = f.job_id
WHERE f.owner = :owner AND f.name = :name AND f.fire < :before ORDER BY f.fire DESC LIMIT :limit

-- name: delete_old_fires
DELETE FROM fires WHERE (owner, name, fire) IN (
    SELECT owner, name, fire FROM fires
    WHERE at < :before AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = fires.job_id AND j.finished_at IS NULL)
    ORDER BY at LIMIT :limit)
