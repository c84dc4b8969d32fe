-- name: job_rows
SELECT {jobs.shown j; id = j.id::text; finished_at = NULL::bigint; node = coalesce(n.id, j.node); cancelling = j.cancel IS NOT NULL;
        error_group = NULL::text;
        progress = (SELECT json_build_array(t.fraction, t.text, t.at)::text FROM rota.progress t WHERE t.job = j.id)}
FROM rota.jobs j LEFT JOIN rota.nodes n ON n.incarnation = j.node
WHERE j.id = ANY (:ids::uuid[]) AND (:sees::text IS NULL OR j.owner = :sees)

-- name: history_rows
-- The same columns, and behind them the last attempt.
SELECT {jobs.shown h; id = h.id::text; node = NULL::text; cancelling = false;
        progress = (SELECT json_build_array(t.fraction, t.text, t.at)::text FROM rota.progress t WHERE t.job = h.id)},
       {attempts.kept h; job = h.id::text; number = h.tries}
FROM rota.history h WHERE h.id = ANY (:ids::uuid[]) AND (:sees::text IS NULL OR h.owner = :sees)

-- name: attempt_rows
SELECT {attempts.kept; job = job::text} FROM rota.attempts WHERE job = ANY (:ids::uuid[]) ORDER BY job, fence

-- name: ids_ending
SELECT id::text FROM rota.jobs WHERE right(id::text, length(:tail)) = :tail AND (:sees::text IS NULL OR owner = :sees)
UNION ALL
SELECT id::text FROM rota.history WHERE right(id::text, length(:tail)) = :tail AND (:sees::text IS NULL OR owner = :sees)
LIMIT 3

-- name: ids_beginning
(SELECT id::text FROM rota.jobs WHERE id BETWEEN :low AND :high AND (:sees::text IS NULL OR owner = :sees) ORDER BY id LIMIT 3)
UNION ALL
(SELECT id::text FROM rota.history WHERE id BETWEEN :low AND :high AND (:sees::text IS NULL OR owner = :sees) ORDER BY id LIMIT 3)
ORDER BY 1 LIMIT 3

-- name: owns_job
SELECT EXISTS (SELECT FROM rota.jobs WHERE id = :id AND (:sees::text IS NULL OR owner = :sees))
    OR EXISTS (SELECT FROM rota.history WHERE id = :id AND (:sees::text IS NULL OR owner = :sees))

-- name: owner_of_job
SELECT owner FROM rota.jobs WHERE id = :id AND (:sees::text IS NULL OR owner = :sees)
UNION ALL SELECT owner FROM rota.history WHERE id = :id AND (:sees::text IS NULL OR owner = :sees) LIMIT 1

-- name: output_rows
-- A repeat that crossed the first on its way may be kept twice; it is shown once.
SELECT DISTINCT ON (fence, number) fence, number, at, stream, body FROM rota.output
WHERE job = :id AND (fence, number) > (:fence::bigint, :number::bigint) ORDER BY fence, number LIMIT :limit

-- name: state_counts
SELECT state, count(*) FROM rota.jobs WHERE :sees::text IS NULL OR owner = :sees GROUP BY state
UNION ALL
SELECT state, count(*) FROM rota.history WHERE :sees::text IS NULL OR owner = :sees GROUP BY state

-- name: writers_of_jobs
-- Whoever has read the watches holds a lock on the table until the end of its transaction.
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = 'rota.watches'::regclass AND mode = 'AccessShareLock' AND pid <> pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())

-- name: any_unread
SELECT EXISTS (SELECT FROM rota.outbox WHERE seq IS NULL)

-- name: number_events
WITH unread AS MATERIALIZED (
    SELECT id FROM rota.outbox WHERE seq IS NULL ORDER BY id LIMIT 10000
), placed AS MATERIALIZED (
    SELECT id, nextval('rota.outbox_positions') AS seq FROM unread
)
UPDATE rota.outbox o SET seq = placed.seq FROM placed WHERE o.id = placed.id

-- name: outbox_span
-- Positions that a transaction has taken and not committed yet don't count.
SELECT (SELECT min(seq) FROM rota.outbox),
       coalesce((SELECT max(seq) FROM rota.outbox), CASE WHEN p.is_called THEN p.last_value ELSE 0 END)
FROM rota.outbox_positions p

-- name: search_tables
-- The parts of the history that have rows, and whether each has its index for searches.
SELECT c.relname, EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indnkeyatts = 5 AND i.indisvalid)
FROM pg_partition_tree('rota.history') t JOIN pg_class c ON c.oid = t.relid
WHERE t.isleaf AND pg_relation_size(c.oid) > 0
