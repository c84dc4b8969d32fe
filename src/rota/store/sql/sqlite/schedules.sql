-- name: insert_schedule
INSERT INTO schedules (owner, name, revision, timing, work, overlap, calendars, app, created_at, changed_at, handled, next_at,
                       paused_at, paused_by, note, module)
VALUES (:owner, :name, :now, :timing, :work, :overlap, :calendars, :app, :now, :now, min(:since, :now),
        iif(:since > :now + 1000000, :now, :next_at),   -- computed by a clock far ahead: look now
        iif(:note IS NULL, NULL, :now), iif(:note IS NULL, NULL, :owner), :note, :module)
ON CONFLICT (owner, name) DO NOTHING

-- name: replace_schedule
-- The cursor never moves back; fires due before the change must have been handled.
UPDATE schedules SET revision = revision + 1, timing = :timing, work = :work, overlap = :overlap, calendars = :calendars,
                     app = :app, module = :module, undeclared_at = NULL, changed_at = :now,
                     handled = max(handled, min(:since, :now)),
                     next_at = iif(:since > max(handled, :now + 1000000), :now, :next_at), broken = NULL
WHERE owner = :owner AND name = :name AND revision = :revision AND (next_at IS NULL OR next_at > :since)

-- name: reopen_fires
-- The new overlap policy may depend on live jobs of the schedule.
UPDATE fires SET open = 1
WHERE owner = :owner AND name = :name AND NOT open
  AND job_id IN (SELECT j.id FROM jobs j WHERE j.id = fires.job_id AND j.finished_at IS NULL)

-- name: pause_schedule
UPDATE schedules SET revision = revision + 1, paused_at = coalesce(paused_at, :now), paused_by = :by, note = :note, changed_at = :now
WHERE owner = :owner AND name = :name

-- name: resume_schedule
-- A schedule that was set aside goes on from its cursor; fires of its pause are skipped before the pause can end.
UPDATE schedules SET revision = revision + 1, changed_at = :now, paused_at = iif(broken IS NULL, NULL, paused_at),
                     paused_by = iif(broken IS NULL, NULL, paused_by), note = iif(broken IS NULL, NULL, note),
                     next_at = iif(broken IS NULL, next_at, :now), broken = NULL
WHERE owner = :owner AND name = :name AND revision = :revision AND (next_at IS NULL OR next_at > :since)

-- name: remove_schedule
DELETE FROM schedules WHERE owner = :owner AND name = :name AND revision = :revision AND handled = :before

-- name: undeclare_schedules
-- Only schedules of the revision that was read: another node may have declared them meanwhile.
UPDATE schedules SET undeclared_at = :now
WHERE owner = :owner AND app = :app AND undeclared_at IS NULL
  AND (name, revision) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:rows))
RETURNING name, module

-- name: set_aside_schedule
UPDATE schedules SET broken = :why, next_at = NULL WHERE owner = :owner AND name = :name AND revision = :revision AND broken IS NULL

-- name: coming_schedules
SELECT {schedules.shown}
FROM schedules WHERE next_at <= :until ORDER BY next_at LIMIT :limit

-- name: next_schedule
SELECT min(next_at) FROM schedules WHERE next_at IS NOT NULL

-- name: next_schedule_after
SELECT min(next_at) FROM schedules WHERE next_at > :until

-- name: standing_schedules
-- Which of these steps (owner, name, revision, cursor) still fit, and are due.
SELECT wanted.key
FROM json_each(:rows) wanted
JOIN schedules s ON s.owner = wanted.value ->> 0 AND s.name = wanted.value ->> 1
WHERE s.revision = wanted.value ->> 2 AND s.handled = wanted.value ->> 3 AND s.next_at <= :now
  AND wanted.value ->> 4 <= :now   -- a scheduler with a fast clock must not decide about future fires

-- name: hold_schedule
SELECT overlap FROM schedules WHERE owner = :owner AND name = :name

-- name: open_fires
-- Of these schedules (owner, name, all): the fires that go on and the first few waiting ones, or all; and whether their
-- jobs live.
SELECT f.owner, f.name, f.job_id, f.kind, j.id IS NOT NULL
FROM json_each(:rows) wanted
CROSS JOIN fires f INDEXED BY fires_going ON f.owner = wanted.value ->> 0 AND f.name = wanted.value ->> 1
LEFT JOIN jobs j ON j.id = f.job_id AND j.finished_at IS NULL
WHERE f.open AND NOT f.waiting
UNION ALL
SELECT f.owner, f.name, f.job_id, f.kind, j.id IS NOT NULL
FROM json_each(:rows) wanted
CROSS JOIN fires f INDEXED BY fires_waiting ON f.owner = wanted.value ->> 0 AND f.name = wanted.value ->> 1
LEFT JOIN jobs j ON j.id = f.job_id AND j.finished_at IS NULL
WHERE f.waiting AND f.fire <= coalesce(iif(wanted.value ->> 2, NULL, (
    SELECT w.fire FROM fires w INDEXED BY fires_waiting
    WHERE w.owner = wanted.value ->> 0 AND w.name = wanted.value ->> 1 AND w.waiting ORDER BY w.fire LIMIT 1 OFFSET :few - 1
)), 9223372036854775807)

-- name: close_fires
UPDATE fires SET open = 0, waiting = 0 WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: known_jobs
SELECT j.id FROM json_each(:ids) wanted CROSS JOIN jobs j ON j.id = wanted.value

-- name: insert_fires
-- A fire that was made before stays as it was. Its row shows that, or its job, which may outlive the row.
INSERT INTO fires (owner, name, fire, job_id, kind, at, open, waiting)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, :kind, :now, value ->> 4, 0 FROM json_each(:rows)
WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = value ->> 3)
ON CONFLICT (owner, name, fire) DO NOTHING RETURNING job_id

-- name: wait_for_others
UPDATE fires SET waiting = 1 WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: withdraw_fires
DELETE FROM fires WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: insert_skips
-- A run that begins with the same fire was recorded before: that one stays.
INSERT INTO skips (owner, name, first, last, count, reason, at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, :now FROM json_each(:rows)
WHERE true ON CONFLICT DO NOTHING

-- name: move_schedules
UPDATE schedules SET handled = max(handled, w.value ->> 2), fired = fired + (w.value ->> 3),
                     next_at = iif(w.value ->> 4 <= fired + (w.value ->> 3), NULL, w.value ->> 5),   -- no limit is NULL, which is not true
                     last_fire = coalesce(w.value ->> 6, last_fire), last_job = coalesce(w.value ->> 7, last_job)
FROM json_each(:rows) w WHERE owner = w.value ->> 0 AND name = w.value ->> 1

-- name: note_last_fire
UPDATE schedules SET last_fire = :last_fire, last_job = :last_job WHERE owner = :owner AND name = :name

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

-- name: release_jobs
-- The rank counts from now: this is the first instant at which the job was due with the fires before it done.
UPDATE jobs SET state = iif(run_at <= :now, 'ready', 'scheduled'), rank = max(run_at, :now) + priority * :step
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'blocked' RETURNING state

-- name: count_waiting
SELECT count(*) FROM (SELECT DISTINCT owner, name FROM fires WHERE waiting)

-- name: any_waiting
SELECT EXISTS (SELECT 1 FROM fires WHERE waiting)

-- name: put_calendar
INSERT INTO calendars (owner, name, body) VALUES (:owner, :name, :body)
ON CONFLICT (owner, name) DO UPDATE SET body = excluded.body

-- name: look_again
-- Makes all schedules that need this calendar due now, also ended ones: their next fire must be computed anew. (No fire
-- was due between the last one and now, and a changed calendar must not add one there.)
UPDATE schedules SET revision = revision + 1, next_at = :now, broken = NULL,
                     handled = iif(broken IS NULL AND (next_at IS NULL OR next_at > :now), max(handled, :now), handled)
WHERE owner = :owner AND EXISTS (SELECT 1 FROM json_each(iif(json_valid(calendars), calendars, '[]')) needed
                                 WHERE needed.value = :calendar)

-- name: lock_calendars
SELECT name FROM calendars WHERE owner = :owner AND name IN (SELECT value FROM json_each(:names))

-- name: hold_calendar
SELECT 1 FROM calendars WHERE owner = :owner AND name = :name

-- name: schedules_needing
SELECT name FROM schedules
WHERE owner = :owner AND EXISTS (SELECT 1 FROM json_each(iif(json_valid(calendars), calendars, '[]')) needed
                                 WHERE needed.value = :calendar)
ORDER BY name LIMIT 3

-- name: remove_calendar
DELETE FROM calendars WHERE owner = :owner AND name = :name

-- name: calendar_rows
SELECT name, body FROM calendars
WHERE owner = :owner AND (:names IS NULL OR name IN (SELECT value FROM json_each(:names))) ORDER BY name

-- name: schedule_rows
SELECT {schedules.shown}
FROM schedules
WHERE (owner, name) > (:after_owner, :after_name) AND (:names IS NULL OR name IN (SELECT value FROM json_each(:names)))
  AND (:app IS NULL OR app = :app)
ORDER BY owner, name LIMIT :limit

-- name: schedule_rows_of
SELECT {schedules.shown}
FROM schedules WHERE owner = :owner AND name > :after_name AND (:app IS NULL OR app = :app) ORDER BY name LIMIT :limit

-- name: schedule_rows_named
SELECT {schedules.shown}
FROM schedules
WHERE owner = :owner AND name IN (SELECT value FROM json_each(:names)) AND name > :after_name AND (:app IS NULL OR app = :app)
ORDER BY name LIMIT :limit

-- name: fire_rows
SELECT f.fire, f.fire AS last, 1, f.at, f.kind, NULL, f.job_id, j.state
FROM fires f LEFT JOIN jobs j ON j.id = f.job_id
WHERE f.owner = :owner AND f.name = :name AND f.fire < :before ORDER BY f.fire DESC LIMIT :limit

-- name: skip_rows
SELECT first, last, count, at, NULL, reason, NULL, NULL FROM skips
WHERE owner = :owner AND name = :name AND first < :before ORDER BY first DESC LIMIT :limit

-- name: fires_of_jobs
SELECT job_id, name, fire, kind FROM fires WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: reopen_replayed
-- A replayed fire counts as live again.
UPDATE fires SET open = 1 WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: delete_old_fires
DELETE FROM fires WHERE (owner, name, fire) IN (
    SELECT owner, name, fire FROM fires
    WHERE at < :before AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = fires.job_id AND j.finished_at IS NULL)
    ORDER BY at LIMIT :limit)

-- name: delete_old_skips
DELETE FROM skips WHERE (owner, name, first) IN (SELECT owner, name, first FROM skips WHERE at < :before ORDER BY at LIMIT :limit)

-- name: broken_schedules
SELECT name FROM schedules WHERE broken IS NOT NULL ORDER BY owner, name LIMIT 4

-- name: undeclared_schedules
SELECT name FROM schedules WHERE undeclared_at IS NOT NULL ORDER BY owner, name LIMIT 4
