-- name: runs
-- What there is to seal. (The size of a chunk is read without the chunk.)
SELECT j.id, o.fence, o.low, o.high, o.count, o.size, o.kept_at, j.owner, j.task, j.state = 'failed'
FROM (SELECT job, fence, min(number) AS low, max(number) AS high, count(*) AS count, sum(size) AS size, min(kept_at) AS kept_at
      FROM (SELECT job, fence, number, kept_at, length(body) AS size FROM output INDEXED BY output_kept
            WHERE (kept_at, job, fence, number) > (:kept_at, coalesce((SELECT seq FROM jobs WHERE id = :job), -1), :fence, :number)
              AND kept_at <= :now - :age
            ORDER BY kept_at, job, fence, number LIMIT :limit) page
      GROUP BY job, fence) o
JOIN jobs j ON j.seq = o.job AND NOT (j.state = 'running' AND j.fence = o.fence)
ORDER BY o.kept_at, o.job, o.fence

-- name: end_of_runs
-- The last chunk that `runs` has looked at, if there may be more behind it.
SELECT o.kept_at, coalesce((SELECT j.id FROM jobs j WHERE j.seq = o.job), ''), o.fence, o.number FROM output o INDEXED BY output_kept
WHERE (o.kept_at, o.job, o.fence, o.number) > (:kept_at, coalesce((SELECT seq FROM jobs WHERE id = :job), -1), :fence, :number)
  AND o.kept_at <= :now - :age
ORDER BY o.kept_at, o.job, o.fence, o.number LIMIT 1 OFFSET :before

-- name: run_chunks
SELECT place, number, at, stream, body FROM (
    SELECT w.key AS place, o.number, o.at, o.stream, o.body,
           sum(length(o.body)) OVER (ORDER BY w.key, o.number) - length(o.body) AS before
    FROM json_each(:rows) w CROSS JOIN jobs j ON j.id = w.value ->> 'jobs'
    CROSS JOIN output o ON o.job = j.seq AND o.fence = w.value ->> 'fences'
         AND o.number >= w.value ->> 'lows' AND o.number <= w.value ->> 'highs')
WHERE before < :room ORDER BY place, number

-- name: hold_raw
-- How many chunks these runs have, and their bytes.
SELECT w.key, count(*), sum(length(o.body)) FROM json_each(:rows) w CROSS JOIN jobs j ON j.id = w.value ->> 'jobs'
CROSS JOIN output o ON o.job = j.seq AND o.fence = w.value ->> 'fences'
     AND o.number >= w.value ->> 'lows' AND o.number <= w.value ->> 'highs'
GROUP BY w.key

-- name: delete_raw
DELETE FROM output WHERE (job, fence, number) IN (
    SELECT o.job, o.fence, o.number FROM json_each(:rows) w CROSS JOIN jobs j ON j.id = w.value ->> 'jobs'
    CROSS JOIN output o ON o.job = j.seq AND o.fence = w.value ->> 'fences'
         AND o.number >= w.value ->> 'lows' AND o.number <= w.value ->> 'highs')

-- name: raw_bodies
SELECT w.key, o.at, o.stream, o.body FROM json_each(:rows) w CROSS JOIN jobs j ON j.id = w.value ->> 'jobs'
CROSS JOIN output o ON o.job = j.seq AND o.fence = w.value ->> 'fences' AND o.number = w.value ->> 'numbers'

-- name: segments_of_job
-- Segments that hold output of a job behind a position, the earliest positions first. (Cells find them, not the owner.)
SELECT id, low_fence, low_number, last_at, gone, body FROM segments
WHERE +owner = :owner AND cell IN (SELECT value FROM json_each(:cells)) AND low_job <= :job AND high_job >= :job
  AND instr(jobs, unhex(replace(:job, '-', ''))) > 0 AND (high_fence, high_number) > (:fence, :number)
ORDER BY low_fence, low_number, id LIMIT :most

-- name: segments_of_purged
SELECT DISTINCT s.id FROM json_each(:rows) p
CROSS JOIN segments s ON s.cell = p.value ->> 'cells'
     AND s.low_job <= p.value ->> 'jobs' AND s.high_job >= p.value ->> 'jobs'
WHERE coalesce(s.gone, '') = '' AND instr(s.jobs, unhex(replace(p.value ->> 'jobs', '-', ''))) > 0 LIMIT :most

-- name: still_in_segments
SELECT DISTINCT p.value ->> 'jobs' FROM json_each(:rows) p
CROSS JOIN segments s ON s.cell = p.value ->> 'cells'
     AND s.low_job <= p.value ->> 'jobs' AND s.high_job >= p.value ->> 'jobs'
WHERE coalesce(s.gone, '') = '' AND instr(s.jobs, unhex(replace(p.value ->> 'jobs', '-', ''))) > 0

-- name: existing_jobs
SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(:ids))
