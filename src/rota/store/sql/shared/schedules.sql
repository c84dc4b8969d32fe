-- name: insert_schedule
INSERT INTO rota.schedules (owner, name, revision, timing, work, overlap, calendars, app, created_at, changed_at, handled, next_at,
                            paused_at, paused_by, note, module)
VALUES (:owner, :name, rota.clock(:now), :timing, :work, :overlap, :calendars::text[], :app, rota.clock(:now), rota.clock(:now),
        least(:since::bigint, rota.clock(:now)),
        CASE WHEN :since::bigint > rota.clock(:now) + 1000000 THEN rota.clock(:now) ELSE :next_at END,   -- computed by a clock far ahead
        CASE WHEN :note::text IS NOT NULL THEN rota.clock(:now) END,
        CASE WHEN :note::text IS NOT NULL THEN :owner END, :note, :module)
ON CONFLICT (owner, name) DO NOTHING

-- name: replace_schedule
-- The cursor never moves back; fires due before the change must have been handled.
UPDATE rota.schedules
SET revision = revision + 1, timing = :timing, work = :work, overlap = :overlap, calendars = :calendars::text[], app = :app,
    module = :module, undeclared_at = NULL, changed_at = rota.clock(:now), broken = NULL,
    handled = greatest(handled, least(:since::bigint, rota.clock(:now))),
    next_at = CASE WHEN :since::bigint > greatest(handled, rota.clock(:now) + 1000000) THEN rota.clock(:now) ELSE :next_at END
WHERE owner = :owner AND name = :name AND revision = :revision AND (next_at IS NULL OR next_at > :since)

-- name: pause_schedule
UPDATE rota.schedules
SET revision = revision + 1, paused_at = coalesce(paused_at, rota.clock(:now)), paused_by = :by, note = :note,
    changed_at = rota.clock(:now)
WHERE owner = :owner AND name = :name

-- name: resume_schedule
-- A schedule that was set aside goes on from its cursor; fires of its pause are skipped before the pause can end.
UPDATE rota.schedules
SET revision = revision + 1, changed_at = rota.clock(:now), paused_at = CASE WHEN broken IS NOT NULL THEN paused_at END,
    paused_by = CASE WHEN broken IS NOT NULL THEN paused_by END, note = CASE WHEN broken IS NOT NULL THEN note END,
    next_at = CASE WHEN broken IS NULL THEN next_at ELSE rota.clock(:now) END, broken = NULL
WHERE owner = :owner AND name = :name AND revision = :revision AND (next_at IS NULL OR next_at > :since)

-- name: remove_schedule
DELETE FROM rota.schedules WHERE owner = :owner AND name = :name AND revision = :revision AND handled = :before

-- name: undeclare_schedules
-- Only schedules of the revision that was read: another node may have declared them meanwhile.
UPDATE rota.schedules SET undeclared_at = rota.clock(:now)
WHERE owner = :owner AND app = :app AND undeclared_at IS NULL
  AND (name, revision) IN (SELECT read.name, read.revision FROM unnest(:names::text[], :revisions::bigint[]) AS read(name, revision))
RETURNING name, module

-- name: set_aside_schedule
UPDATE rota.schedules SET broken = :why, next_at = NULL
WHERE owner = :owner AND name = :name AND revision = :revision AND broken IS NULL

-- name: coming_schedules
SELECT {schedules.shown; last_job = last_job::text}
FROM rota.schedules WHERE next_at <= :until::bigint ORDER BY next_at LIMIT :limit::integer

-- name: next_schedule_after
SELECT next_at FROM rota.schedules WHERE next_at > :until::bigint ORDER BY next_at LIMIT 1

-- name: standing_schedules
-- Which of these steps still fit and are due; locked until the end of the transaction. Rows locked by other
-- transactions are skipped. Since this never waits, the order of locks does not matter.
SELECT wanted.place - 1
FROM unnest(:owners::text[], :names::text[], :revisions::bigint[], :cursors::bigint[], :reaches::bigint[])
     WITH ORDINALITY AS wanted(owner, name, revision, handled, reach, place)
JOIN rota.schedules s ON s.owner = wanted.owner AND s.name = wanted.name
WHERE s.revision = wanted.revision AND s.handled = wanted.handled
  AND s.next_at + 0 <= rota.clock(:now)   -- "+ 0" keeps the planner from the index on next_at: rows are found by name
  AND wanted.reach <= rota.clock(:now)    -- a scheduler with a fast clock must not decide about future fires
FOR UPDATE OF s SKIP LOCKED

-- name: hold_schedule
SELECT overlap FROM rota.schedules WHERE owner = :owner AND name = :name FOR UPDATE

-- name: close_fires
UPDATE rota.fires SET open = false, waiting = false WHERE job_id = ANY (:ids::uuid[])

-- name: wait_for_others
UPDATE rota.fires SET waiting = true WHERE job_id = ANY (:ids::uuid[])

-- name: withdraw_fires
DELETE FROM rota.fires WHERE job_id = ANY (:ids::uuid[])

-- name: insert_skips
-- A run that begins with the same fire was recorded before: that one stays.
INSERT INTO rota.skips (owner, name, first, last, count, reason, at)
SELECT owner, name, first, last, count, reason, rota.clock(:now)
FROM unnest(:owners::text[], :names::text[], :firsts::bigint[], :lasts::bigint[], :counts::bigint[], :reasons::text[])
     AS new(owner, name, first, last, count, reason)
ORDER BY owner, name, first
ON CONFLICT DO NOTHING RETURNING owner, name, first

-- name: move_schedules
UPDATE rota.schedules AS s
SET handled = greatest(s.handled, w.handled), fired = s.fired + w.made,
    next_at = CASE WHEN w.most <= s.fired + w.made THEN NULL ELSE w.next_at END,   -- no limit is NULL, which is not true
    last_fire = coalesce(w.last_fire, s.last_fire), last_job = coalesce(w.last_job, s.last_job)
FROM unnest(:owners::text[], :names::text[], :handled::bigint[], :made::bigint[], :limits::bigint[], :nexts::bigint[],
            :last_fires::bigint[], :last_jobs::uuid[])
     AS w(owner, name, handled, made, most, next_at, last_fire, last_job)
WHERE s.owner = w.owner AND s.name = w.name

-- name: note_last_fire
UPDATE rota.schedules SET last_fire = :last_fire, last_job = :last_job::text::uuid WHERE owner = :owner AND name = :name

-- name: release_jobs
-- The rank counts from now: this is the first instant at which the job was due with the fires before it done.
UPDATE rota.jobs SET state = CASE WHEN run_at <= rota.clock(:now) THEN 'ready' ELSE 'scheduled' END,
                     rank = greatest(run_at, rota.clock(:now)) + priority * :step::bigint
WHERE id = ANY (:ids::uuid[]) AND state = 'blocked' RETURNING state

-- name: count_waiting
SELECT count(*) FROM (SELECT DISTINCT owner, name FROM rota.fires WHERE waiting) AS waiting

-- name: put_calendar
INSERT INTO rota.calendars (owner, name, body) VALUES (:owner, :name, :body)
ON CONFLICT (owner, name) DO UPDATE SET body = excluded.body

-- name: look_again
-- Makes all schedules that need this calendar due now, also ended ones: their next fire must be computed anew. (No fire
-- was due between the last one and now, and a changed calendar must not add one there.)
UPDATE rota.schedules
SET revision = revision + 1, next_at = rota.clock(:now), broken = NULL,
    handled = CASE WHEN broken IS NULL AND (next_at IS NULL OR next_at > rota.clock(:now))
                   THEN greatest(handled, rota.clock(:now)) ELSE handled END
WHERE owner = :owner AND :calendar = ANY (calendars)

-- name: lock_calendars
-- Locked: a calendar must not be removed before the schedule that needs it is written.
SELECT name FROM rota.calendars WHERE owner = :owner AND name = ANY (:names::text[]) ORDER BY name FOR KEY SHARE

-- name: hold_calendar
SELECT 1 FROM rota.calendars WHERE owner = :owner AND name = :name FOR UPDATE

-- name: schedules_needing
SELECT name FROM rota.schedules WHERE owner = :owner AND :calendar = ANY (calendars) ORDER BY name LIMIT 3

-- name: remove_calendar
DELETE FROM rota.calendars WHERE owner = :owner AND name = :name

-- name: calendar_rows
SELECT name, body FROM rota.calendars
WHERE owner = :owner AND (:names::text[] IS NULL OR name = ANY (:names)) ORDER BY name

-- name: schedule_rows
SELECT {schedules.shown; last_job = last_job::text}
FROM rota.schedules
WHERE (owner, name) > (:after_owner, :after_name) AND (:names::text[] IS NULL OR name = ANY (:names))
  AND (:app::text IS NULL OR app = :app)
ORDER BY owner, name LIMIT :limit::integer

-- name: schedule_rows_of
SELECT {schedules.shown; last_job = last_job::text}
FROM rota.schedules WHERE owner = :owner AND name > :after_name AND (:app::text IS NULL OR app = :app)
ORDER BY name LIMIT :limit::integer

-- name: schedule_rows_named
SELECT {schedules.shown; last_job = last_job::text}
FROM rota.schedules
WHERE owner = :owner AND name = ANY (:names::text[]) AND name > :after_name AND (:app::text IS NULL OR app = :app)
ORDER BY name LIMIT :limit::integer

-- name: skip_rows
SELECT first, last, count, at, NULL::text, reason, NULL::text, NULL::text FROM rota.skips
WHERE owner = :owner AND name = :name AND first < :before::bigint ORDER BY first DESC LIMIT :limit::integer

-- name: fires_of_jobs
SELECT job_id::text, name, fire, kind FROM rota.fires WHERE job_id = ANY (:ids::uuid[])

-- name: reopen_replayed
-- A replayed fire counts as live again.
UPDATE rota.fires SET open = true WHERE job_id = ANY (:ids::uuid[])

-- name: delete_old_skips
DELETE FROM rota.skips WHERE (owner, name, first) IN (
    SELECT owner, name, first FROM rota.skips WHERE at < rota.clock(:now) - :age::bigint ORDER BY at LIMIT :limit)

-- name: broken_schedules
SELECT name FROM rota.schedules WHERE broken IS NOT NULL ORDER BY owner, name LIMIT 4

-- name: undeclared_schedules
SELECT name FROM rota.schedules WHERE undeclared_at IS NOT NULL ORDER BY owner, name LIMIT 4
