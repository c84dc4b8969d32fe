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
