-- name: insert_schedule
INSERT INTO schedules (owner, name, revision, timing, work, overlap, calendars, app, created_at, changed_at, handled, next_at,
                       paused_at, paused_by, note, module)
VALUES (:owner, :name, :now, :timing, :work, :overlap, :calendars, :app, :now, :now, min(:since, :now),
        iif(:since > :now + 1000000, :now, :next_at),   -- by a clock that is far ahead: to be looked at
        iif(:note IS NULL, NULL, :now), iif(:note IS NULL, NULL, :owner), :note, :module)
ON CONFLICT (owner, name) DO NOTHING

-- name: replace_schedule
-- The cursor never moves back; what was due before the change must have been handled before it.
UPDATE schedules SET revision = revision + 1, timing = :timing, work = :work, overlap = :overlap, calendars = :calendars,
                     app = :app, module = :module, undeclared_at = NULL, changed_at = :now,
                     handled = max(handled, min(:since, :now)),
                     next_at = iif(:since > max(handled, :now + 1000000), :now, :next_at), broken = NULL
WHERE owner = :owner AND name = :name AND revision = :revision AND (next_at IS NULL OR next_at > :since)

-- name: reopen_fires
-- Under the new policy it may matter which of its jobs live.
UPDATE fires SET open = 1
WHERE owner = :owner AND name = :name AND NOT open
  AND job_id IN (SELECT j.id FROM jobs j WHERE j.id = fires.job_id AND j.finished_at IS NULL)

-- name: pause_schedule
UPDATE schedules SET revision = revision + 1, paused_at = coalesce(paused_at, :now), paused_by = :by, note = :note, changed_at = :now
WHERE owner = :owner AND name = :name

-- name: resume_schedule
-- One that was set aside goes on where it stood; what fell into a pause is then skipped before the pause can end.
UPDATE schedules SET revision = revision + 1, changed_at = :now, paused_at = iif(broken IS NULL, NULL, paused_at),
                     paused_by = iif(broken IS NULL, NULL, paused_by), note = iif(broken IS NULL, NULL, note),
                     next_at = iif(broken IS NULL, next_at, :now), broken = NULL
WHERE owner = :owner AND name = :name AND revision = :revision AND (next_at IS NULL OR next_at > :since)

-- name: remove_schedule
DELETE FROM schedules WHERE owner = :owner AND name = :name AND revision = :revision AND handled = :before

-- name: undeclare_schedules
-- Those that stand as they were read: another node may have declared them meanwhile.
UPDATE schedules SET undeclared_at = :now
WHERE owner = :owner AND app = :app AND undeclared_at IS NULL
  AND (name, revision) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:read))
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
FROM json_each(:steps) wanted
JOIN schedules s ON s.owner = wanted.value ->> 0 AND s.name = wanted.value ->> 1
WHERE s.revision = wanted.value ->> 2 AND s.handled = wanted.value ->> 3 AND s.next_at <= :now
  AND wanted.value ->> 4 <= :now   -- a clock that is fast must not decide about what is still to come

-- name: overlap_of
SELECT overlap FROM schedules WHERE owner = :owner AND name = :name

-- name: going_fires
SELECT f.job_id, f.kind, j.id IS NOT NULL
FROM fires f INDEXED BY fires_going LEFT JOIN jobs j ON j.id = f.job_id AND j.finished_at IS NULL
WHERE f.owner = :owner AND f.name = :name AND f.open AND NOT f.waiting

-- name: waiting_fires
SELECT f.job_id, f.kind, j.id IS NOT NULL
FROM fires f INDEXED BY fires_waiting LEFT JOIN jobs j ON j.id = f.job_id AND j.finished_at IS NULL
WHERE f.owner = :owner AND f.name = :name AND f.waiting ORDER BY f.fire LIMIT :limit

-- name: close_fires
UPDATE fires SET open = 0, waiting = 0 WHERE job_id IN (SELECT value FROM json_each(:ids))

-- name: known_fires
-- CROSS: a few look-ups, never a scan of all fires of the schedule.
SELECT f.fire FROM json_each(:fires) wanted CROSS JOIN fires f ON f.owner = :owner AND f.name = :name AND f.fire = wanted.value

-- name: known_jobs
SELECT j.id FROM json_each(:ids) wanted CROSS JOIN jobs j ON j.id = wanted.value

-- name: insert_fire
INSERT INTO fires (owner, name, fire, job_id, kind, at, open, waiting) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: insert_skip
-- A run that begins with the same fire was recorded before: that one stays.
INSERT INTO skips (owner, name, first, last, count, reason, at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: move_schedule
UPDATE schedules SET handled = max(handled, :handled), fired = fired + :made,
                     next_at = iif(:limit <= fired + :made, NULL, :next_at),   -- no limit is NULL, which is not true
                     last_fire = coalesce(:last_fire, last_fire), last_job = coalesce(:last_job, last_job)
WHERE owner = :owner AND name = :name

-- name: note_last_fire
UPDATE schedules SET last_fire = :last_fire, last_job = :last_job WHERE owner = :owner AND name = :name

-- name: waiting_schedules
SELECT DISTINCT owner, name FROM fires WHERE waiting

-- name: any_waiting
SELECT EXISTS (SELECT 1 FROM fires WHERE waiting)

-- name: release_job
-- Its rank counts from now: this is the first instant at which it was due with those before it done.
UPDATE jobs SET state = iif(run_at <= :now, 'ready', 'scheduled'), rank = max(run_at, :now) + priority * :step
WHERE id = :id AND state = 'blocked' RETURNING state

-- name: stop_waiting
UPDATE fires SET waiting = 0 WHERE job_id = :id

-- name: put_calendar
INSERT INTO calendars (owner, name, body) VALUES (:owner, :name, :body)
ON CONFLICT (owner, name) DO UPDATE SET body = excluded.body

-- name: look_again
-- At all schedules that need this calendar, also those that had come to their end. What was worked out for them before no longer counts.
-- (Nothing was due between the last fire and now, and no other calendar may change that.)
UPDATE schedules SET revision = revision + 1, next_at = :now, broken = NULL,
                     handled = iif(broken IS NULL AND (next_at IS NULL OR next_at > :now), max(handled, :now), handled)
WHERE owner = :owner AND EXISTS (SELECT 1 FROM json_each(iif(json_valid(calendars), calendars, '[]')) needed
                                 WHERE needed.value = :calendar)

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
-- A fire that is run again counts as living again.
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
