-- name: old_ended
SELECT seq, id FROM jobs
WHERE (state = 'succeeded' OR state = 'cancelled' OR state = 'skipped' OR state = 'dropped') AND finished_at < :before
ORDER BY finished_at LIMIT :limit

-- name: old_dead
SELECT seq, id FROM jobs WHERE state = 'failed' AND finished_at < :before ORDER BY finished_at LIMIT :limit

-- name: output_counts
SELECT job, count(*) FROM output WHERE job IN (SELECT value FROM json_each(:seqs)) GROUP BY job

-- name: trim_output
DELETE FROM output WHERE job = :seq AND (fence, number) IN (
    SELECT fence, number FROM output WHERE job = :seq ORDER BY fence, number LIMIT :limit)

-- name: delete_old_keys
-- A key stays while its job lives, however old: the job's retry may still be on its way.
DELETE FROM keys WHERE (owner, key) IN (
    SELECT k.owner, k.key FROM keys k LEFT JOIN jobs j ON j.id = k.job_id
    WHERE k.expires_at < :now AND (j.state IS NULL OR j.state NOT IN ('blocked', 'scheduled', 'held', 'ready', 'running'))
    ORDER BY k.expires_at LIMIT :limit)

-- name: delete_old_events
DELETE FROM outbox WHERE seq IN (SELECT seq FROM outbox WHERE at < :before ORDER BY at LIMIT :limit)

-- name: dead_after
-- A piece of a walk through the dead letters, in the order of their ends; and the texts of those without a group of errors.
SELECT j.finished_at, j.seq, j.error_group IS NULL, iif(j.error_group IS NULL, CAST(j.task AS BLOB), NULL),
       iif(j.error_group IS NULL, CAST(j.reason AS BLOB), NULL),
       iif(j.error_group IS NULL, (SELECT CAST(a.error AS BLOB) FROM attempts a WHERE a.job = j.seq AND a.finished_at = j.finished_at
                                   ORDER BY a.fence DESC LIMIT 1), NULL)
FROM jobs j WHERE j.state = 'failed' AND (j.finished_at, j.seq) > (:at, :seq) ORDER BY j.finished_at, j.seq LIMIT :most

-- name: set_groups
UPDATE jobs SET error_group = r.value ->> 'groups' FROM json_each(:rows) r WHERE jobs.seq = r.value ->> 'jobs'
