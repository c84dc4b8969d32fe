-- name: ids_ending
SELECT id FROM jobs WHERE substr(id, -length(:tail)) = :tail AND (:sees IS NULL OR owner = :sees) LIMIT 3

-- name: ids_beginning
SELECT id FROM jobs WHERE id >= :low AND id < :high AND (:sees IS NULL OR owner = :sees) ORDER BY id LIMIT 3

-- name: job_rows
SELECT {jobs.shown j p; node = coalesce(n.id, j.node); cancelling = j.cancel IS NOT NULL;
               progress = (SELECT json_array(t.fraction, t.text, t.at) FROM progress t WHERE t.job = j.seq)}
FROM jobs j
LEFT JOIN payloads p USING (seq)
LEFT JOIN nodes n ON n.incarnation = j.node
WHERE j.id IN (SELECT value FROM json_each(:ids)) AND (:sees IS NULL OR j.owner = :sees)

-- name: attempt_rows
SELECT {attempts.kept a; job = j.id} FROM jobs j JOIN attempts a ON a.job = j.seq
WHERE j.id IN (SELECT value FROM json_each(:ids)) ORDER BY a.job, a.fence

-- name: owner_of_job
SELECT owner FROM jobs WHERE id = :id AND (:sees IS NULL OR owner = :sees)

-- name: output_rows
SELECT o.fence, o.number, o.at, o.stream, o.body
FROM output o
WHERE o.job = (SELECT seq FROM jobs WHERE id = :id) AND (o.fence, o.number) > (:fence, :number)
ORDER BY o.fence, o.number LIMIT :limit

-- name: state_counts
SELECT state, count(*) FROM jobs WHERE :sees IS NULL OR owner = :sees GROUP BY state

-- name: append_job_events
-- One event per job, with its owner.
INSERT INTO outbox (at, kind, owner, subject, data)
SELECT :at, :kind, j.owner, j.id,
       json_patch(json_object('queue', j.queue, 'task', j.task), coalesce(wanted.value ->> 1, '{}'))
FROM json_each(:jobs) wanted JOIN jobs j ON j.id = wanted.value ->> 0

-- name: append_batch_events
-- One event for all jobs of an owner, queue and task.
INSERT INTO outbox (at, kind, owner, subject, data)
SELECT :at, :kind, owner, '', json_object('queue', queue, 'task', task, 'jobs', json_group_array(id))
FROM jobs WHERE seq IN (SELECT value FROM json_each(:seqs)) GROUP BY owner, queue, task

-- name: is_watched
SELECT EXISTS (SELECT 1 FROM watches WHERE until > :now AND (:owner IS NULL OR owner = :owner))

-- name: outbox_span
SELECT (SELECT min(seq) FROM outbox), coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'outbox'), 0)
