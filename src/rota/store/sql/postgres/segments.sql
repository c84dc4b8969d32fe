-- name: runs
-- What there is to seal. (The size of a chunk is read without the chunk.)
SELECT o.job::text, o.fence, o.low, o.high, o.count, o.size, o.kept_at, j.owner, j.task, j.dead
FROM (SELECT job, fence, min(number) AS low, max(number) AS high, count(*) AS count, sum(size)::bigint AS size, min(kept_at) AS kept_at
      FROM (SELECT job, fence, number, kept_at, octet_length(body) AS size FROM rota.output
            WHERE kept_at >= :kept_at::bigint AND kept_at <= rota.clock(:now) - :age::bigint
              AND (kept_at, job, fence, number) > (:kept_at::bigint, :job::uuid, :fence::bigint, :number::bigint)
            ORDER BY kept_at, job, fence, number LIMIT :limit) page
      GROUP BY job, fence) o
CROSS JOIN LATERAL (
    SELECT owner, task, false AS dead FROM rota.jobs WHERE id = o.job AND NOT (state = 'running' AND fence = o.fence)
    UNION ALL SELECT owner, task, lasting FROM rota.history WHERE id = o.job LIMIT 1) j
ORDER BY o.kept_at, o.job, o.fence

-- name: end_of_runs
-- The last chunk that `runs` has looked at, if there may be more behind it.
SELECT kept_at, job::text, fence, number FROM rota.output
WHERE kept_at >= :kept_at::bigint AND kept_at <= rota.clock(:now) - :age::bigint
  AND (kept_at, job, fence, number) > (:kept_at::bigint, :job::uuid, :fence::bigint, :number::bigint)
ORDER BY kept_at, job, fence, number OFFSET :before LIMIT 1

-- name: run_chunks
SELECT place, number, at, stream, body FROM (
    SELECT w.place - 1 AS place, o.number, o.at, o.stream, o.body,
           sum(octet_length(o.body)) OVER (ORDER BY w.place, o.number) - octet_length(o.body) AS before
    FROM unnest(:jobs::uuid[], :fences::bigint[], :lows::bigint[], :highs::bigint[])
         WITH ORDINALITY AS w(job, fence, low, high, place)
    JOIN rota.output o ON o.job = w.job AND o.fence = w.fence AND o.number >= w.low AND o.number <= w.high) found
WHERE before < :room::bigint ORDER BY place, number

-- name: hold_raw
-- How many chunks these runs have, and their bytes; locked.
SELECT place, count(*), sum(size)::bigint FROM (
    SELECT w.place - 1 AS place, octet_length(o.body) AS size
    FROM unnest(:jobs::uuid[], :fences::bigint[], :lows::bigint[], :highs::bigint[])
         WITH ORDINALITY AS w(job, fence, low, high, place)
    JOIN rota.output o ON o.job = w.job AND o.fence = w.fence AND o.number >= w.low AND o.number <= w.high
    ORDER BY o.job, o.fence, o.number FOR UPDATE OF o) held
GROUP BY place

-- name: delete_raw
DELETE FROM rota.output o
USING unnest(:jobs::uuid[], :fences::bigint[], :lows::bigint[], :highs::bigint[]) AS w(job, fence, low, high)
WHERE o.job = w.job AND o.fence = w.fence AND o.number >= w.low AND o.number <= w.high

-- name: raw_bodies
SELECT w.place - 1, o.at, o.stream, o.body
FROM unnest(:jobs::uuid[], :fences::bigint[], :numbers::bigint[]) WITH ORDINALITY AS w(job, fence, number, place)
JOIN rota.output o ON o.job = w.job AND o.fence = w.fence AND o.number = w.number

-- name: segments_of_job
-- Segments that hold output of a job behind a position, the earliest positions first. (Cells find them, not the owner.)
SELECT id::text, low_fence, low_number, last_at, gone, body FROM rota.segments
WHERE owner IS NOT DISTINCT FROM :owner AND cell = ANY (:cells::bigint[]) AND low_job <= :job::uuid AND high_job >= :job::uuid
  AND position(uuid_send(:job::uuid) IN jobs) > 0 AND (high_fence, high_number) > (:fence::bigint, :number::bigint)
ORDER BY low_fence, low_number, id LIMIT :most

-- name: segments_of_purged
SELECT DISTINCT s.id::text FROM unnest(:jobs::uuid[], :cells::bigint[]) AS p(job, cell)
JOIN rota.segments s ON s.cell = p.cell AND s.low_job <= p.job AND s.high_job >= p.job
WHERE coalesce(s.gone, '') = '' AND position(uuid_send(p.job) IN s.jobs) > 0 LIMIT :most

-- name: still_in_segments
SELECT DISTINCT p.job::text FROM unnest(:jobs::uuid[], :cells::bigint[]) AS p(job, cell)
JOIN rota.segments s ON s.cell = p.cell AND s.low_job <= p.job AND s.high_job >= p.job
WHERE coalesce(s.gone, '') = '' AND position(uuid_send(p.job) IN s.jobs) > 0

-- name: existing_jobs
SELECT id::text FROM rota.jobs WHERE id = ANY (:ids::uuid[])
UNION ALL SELECT id::text FROM rota.history WHERE id = ANY (:ids::uuid[])
