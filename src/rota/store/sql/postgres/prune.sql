-- name: old_ended
-- Locked, so that no replay reopens them meanwhile.
SELECT id::text FROM rota.history WHERE NOT lasting AND finished_at < rota.clock(:now) - :age::bigint
ORDER BY finished_at, id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: old_strays
-- Jobs of days without a partition.
SELECT id::text FROM rota.history_other WHERE finished_at < rota.clock(:now) - :age::bigint
ORDER BY finished_at, id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: old_dead
SELECT id::text FROM rota.history WHERE lasting AND finished_at < rota.clock(:now) - :age::bigint
ORDER BY finished_at, id LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: output_counts
SELECT job::text, count(*) FROM rota.output WHERE job = ANY (:ids::uuid[]) GROUP BY job

-- name: trim_output
DELETE FROM rota.output WHERE job = :id AND (fence, number) IN (
    SELECT fence, number FROM rota.output WHERE job = :id ORDER BY fence, number LIMIT :limit)

-- name: delete_old_keys
-- A key stays while its job lives, however old: the job's retry may still be on its way. An order that names a key holds it.
-- Materialised: a plan may run a subquery once per row, and with row locks each run would find other rows.
WITH old AS MATERIALIZED (
    SELECT k.owner, k.key FROM rota.keys k
    WHERE k.expires_at < rota.clock(:now) AND NOT EXISTS (SELECT FROM rota.jobs j WHERE j.id = k.job_id)
    ORDER BY k.expires_at LIMIT :limit FOR UPDATE SKIP LOCKED
)
DELETE FROM rota.keys k USING old WHERE k.owner = old.owner AND k.key = old.key

-- name: unread_events_are_old
SELECT EXISTS (SELECT FROM (SELECT at FROM rota.outbox WHERE seq IS NULL ORDER BY id LIMIT 1) first
               WHERE at < rota.clock(:now) - :age::bigint)

-- name: delete_old_events
-- Only events that have a position: a reader that comes back must notice that some are gone.
DELETE FROM rota.outbox WHERE id IN (
    SELECT id FROM rota.outbox WHERE at < rota.clock(:now) - :age::bigint AND seq IS NOT NULL ORDER BY at LIMIT :limit)

-- name: partitions
-- The days that have partitions, and how many rows of no known day there are.
SELECT p.relname, c.relname FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent JOIN pg_namespace n ON n.oid = p.relnamespace
WHERE n.nspname = 'rota' AND p.relname IN ('history_dated', 'attempts_dated', 'output_dated', 'segments_dated')

-- name: ungrouped
SELECT id::text, convert_to(task, 'UTF8'), convert_to(reason, 'UTF8'), convert_to(error, 'UTF8')
FROM rota.history WHERE lasting AND error_group IS NULL ORDER BY error_group, finished_at LIMIT :limit FOR UPDATE SKIP LOCKED

-- name: set_groups
UPDATE rota.history h SET error_group = w.error_group FROM unnest(:ids::uuid[], :groups::text[]) AS w(id, error_group)
WHERE h.id = w.id AND h.lasting
