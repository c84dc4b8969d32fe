-- name: known_keys
-- Which of these keys were used before. A key counts until it is pruned, which is never before it expires.
SELECT k.key, k.content, k.job_id
FROM json_each(:keys) wanted
CROSS JOIN keys k ON k.owner = :owner AND k.key = wanted.value   -- CROSS: a few look-ups, never a scan of all keys

-- name: next_seq
SELECT coalesce(max(seq), 0) + 1 FROM jobs

-- name: insert_job
INSERT INTO jobs ({jobs.inserted}) VALUES ({jobs.inserted?})

-- name: insert_payload
INSERT INTO payloads ({payloads.inserted}) VALUES ({payloads.inserted?})

-- name: insert_key
INSERT INTO keys (owner, key, content, job_id, expires_at) VALUES (?, ?, ?, ?, ?)

-- name: cancel_waiting
UPDATE jobs SET state = 'cancelled', finished_at = :now, held_by = NULL, reason = :reason
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('blocked', 'scheduled', 'held', 'ready')

-- name: delete_output
DELETE FROM output WHERE job IN (SELECT value FROM json_each(:seqs))

-- name: delete_attempts
DELETE FROM attempts WHERE job IN (SELECT value FROM json_each(:seqs))

-- name: delete_progress
DELETE FROM progress WHERE job IN (SELECT value FROM json_each(:seqs))

-- name: delete_payloads
DELETE FROM payloads WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: delete_jobs
DELETE FROM jobs WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: seqs_of_ended
SELECT seq FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('succeeded', 'failed', 'cancelled', 'skipped', 'dropped')

-- name: lock_jobs
-- The states of these live jobs, if the principal may see them.
SELECT id, state, owner FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND finished_at IS NULL AND (:sees IS NULL OR owner = :sees)

-- name: lock_history
SELECT id, state, owner, queue, task FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND finished_at IS NOT NULL AND (:sees IS NULL OR owner = :sees)

-- name: hurry_jobs
-- A job that is due already keeps its rank.
UPDATE jobs SET run_at = min(run_at, :now), rank = min(run_at, :now) + priority * :step, level = 0, own_step = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'scheduled'
