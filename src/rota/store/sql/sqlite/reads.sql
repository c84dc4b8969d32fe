-- name: job_by_id
SELECT seq FROM jobs WHERE id = :id AND (:sees IS NULL OR owner = :sees)

-- name: ids_ending
SELECT id FROM jobs WHERE substr(id, -length(:tail)) = :tail AND (:sees IS NULL OR owner = :sees) LIMIT 3

-- name: ids_beginning
SELECT id FROM jobs WHERE id >= :low AND id < :high AND (:sees IS NULL OR owner = :sees) ORDER BY id LIMIT 3

-- name: job_rows
SELECT j.seq, {jobs.shown j p; node = coalesce(n.id, j.node); cancelling = j.cancel IS NOT NULL;
               progress = (SELECT json_array(t.fraction, t.text, t.at) FROM progress t WHERE t.job = j.seq)}
FROM jobs j
LEFT JOIN payloads p USING (seq)
LEFT JOIN nodes n ON n.incarnation = j.node
WHERE j.seq IN (SELECT value FROM json_each(:seqs))
ORDER BY j.seq DESC

-- name: attempt_rows
SELECT {attempts.kept} FROM attempts WHERE job IN (SELECT value FROM json_each(:seqs)) ORDER BY job, fence

-- name: output_rows
SELECT o.fence, o.number, o.at, o.stream, o.body
FROM output o
WHERE o.job = :seq AND (o.fence, o.number) > (:fence, :number)
ORDER BY o.fence, o.number LIMIT :limit

-- name: state_counts
SELECT state, count(*) FROM jobs WHERE :sees IS NULL OR owner = :sees GROUP BY state

-- name: task_rows
SELECT info FROM tasks ORDER BY name

-- name: append_event
INSERT INTO outbox (at, kind, owner, subject, data) VALUES (:at, :kind, :owner, :subject, :data)

-- name: append_job_events
-- One event per job, with its owner.
INSERT INTO outbox (at, kind, owner, subject, data)
SELECT :at, :kind, j.owner, j.id, coalesce(wanted.value ->> 1, '{}')
FROM json_each(:jobs) wanted JOIN jobs j ON j.id = wanted.value ->> 0

-- name: event_rows
SELECT seq, at, kind, owner, subject, data FROM outbox
WHERE seq > :after AND (:sees IS NULL OR owner = :sees) ORDER BY seq LIMIT :limit
