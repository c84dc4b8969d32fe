-- `coalesce(gone, '') = ''` instead of `gone IS NULL`: the smaller indexes of segments that can be read would attract
-- PostgreSQL's planner, and are in another order.

-- name: insert_segment
INSERT INTO rota.segments ({segments.kept}) VALUES (
    :id::uuid, :owner, :task, :lasting::boolean, coalesce(:kept_at::bigint, rota.clock(:now)), :first_at::bigint, :last_at::bigint,
    :lines::bigint, :size::bigint, :cell::bigint, :low_job::uuid, :high_job::uuid, :low_fence::bigint, :low_number::bigint,
    :high_fence::bigint, :high_number::bigint, :stored::bigint, NULL, :jobs::bytea, :words::bytea, :body::bytea)

-- name: delete_segments
DELETE FROM rota.segments WHERE id = ANY (:ids::uuid[])

-- name: hold_segments
-- Which of these are there; locked.
SELECT id::text FROM rota.segments WHERE id = ANY (:ids::uuid[]) ORDER BY id FOR UPDATE

-- name: set_segments_aside
UPDATE rota.segments SET gone = 'damaged' WHERE id = ANY (:ids::uuid[]) AND coalesce(gone, '') = ''

-- name: stored_segments
SELECT id::text, owner, task, lasting, kept_at, size, body FROM rota.segments
WHERE id = ANY (:ids::uuid[]) AND coalesce(gone, '') = '' ORDER BY id

-- name: list_purged
-- Jobs that were purged just now, if a segment may hold output of them. (`cells`: those of each job.)
INSERT INTO rota.purged (job)
SELECT DISTINCT p.job FROM unnest(:jobs::uuid[], :cells::bigint[]) AS p(job, cell)
JOIN rota.segments s ON s.cell = p.cell AND s.low_job <= p.job AND s.high_job >= p.job
WHERE true
ON CONFLICT DO NOTHING

-- name: purged_jobs
SELECT job::text FROM rota.purged ORDER BY job LIMIT :limit

-- name: forget_purged
DELETE FROM rota.purged WHERE job = ANY (:ids::uuid[])

-- name: small_segments
-- Groups of small segments of one task and day; those that join to the fewest come first.
SELECT owner, task, lasting, kept_at / :day::bigint FROM rota.segments
WHERE gone IS NULL AND size < 131072
GROUP BY owner, task, lasting, kept_at / :day::bigint HAVING count(*) >= :least::bigint
ORDER BY count(*) DESC LIMIT :limit

-- name: small_segments_of
SELECT id::text, size FROM rota.segments
WHERE gone IS NULL AND size < 131072 AND owner = :owner AND task = :task AND lasting = :lasting::boolean
  AND kept_at >= :since::bigint AND kept_at < :until::bigint
ORDER BY kept_at, id LIMIT :most

-- name: segments_past
-- Segments whose jobs should be gone by now.
SELECT id::text, jobs FROM rota.segments
WHERE lasting = :lasting::boolean AND kept_at < rota.clock(:now) - :age::bigint ORDER BY kept_at, id LIMIT :limit

-- name: keep_segments
-- Some of their jobs are still there: they are looked at again in a day.
UPDATE rota.segments SET lasting = true, kept_at = rota.clock(:now) WHERE id = ANY (:ids::uuid[])

-- name: segments_by_age
SELECT id::text FROM rota.segments
WHERE lasting = :lasting::boolean AND kept_at < rota.clock(:now) - :age::bigint AND coalesce(gone, '') = '' ORDER BY kept_at, id LIMIT :limit

-- name: empty_segments
-- What was in them is removed, and who reads their jobs gets a mark.
UPDATE rota.segments SET gone = :why, body = :nothing::bytea, words = :nothing::bytea, lines = 0, size = 0, stored = octet_length(jobs)
WHERE id = ANY (:ids::uuid[])

-- name: segment_space
SELECT coalesce(sum(stored), 0)::bigint FROM rota.segments

-- name: oldest_segments
SELECT id::text, stored - octet_length(jobs) FROM rota.segments WHERE gone IS NULL ORDER BY last_at, id LIMIT :limit

-- name: damaged_segments
SELECT count(*), coalesce(sum(size), 0)::bigint FROM rota.segments WHERE gone = 'damaged'
