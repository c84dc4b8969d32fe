-- name: last_output
-- The last chunk of each attempt.
SELECT wanted.job::text, wanted.fence, last.number, last.stream, CASE WHEN last.stream = 'cut' THEN last.body ELSE '' END
FROM unnest(:jobs::uuid[], :fences::bigint[]) AS wanted(job, fence)
CROSS JOIN LATERAL (SELECT o.number, o.stream, o.body FROM rota.output o WHERE o.job = wanted.job AND o.fence = wanted.fence
                    ORDER BY o.number DESC LIMIT 1) AS last

-- name: count_output
-- Bytes of kept output, sealed and unsealed, from one snapshot with the number that the row has. (The size of a chunk is read
-- without the chunk.)
SELECT u.name, u.output_kept, coalesce(raw.size, 0)::bigint + coalesce(sealed.size, 0)::bigint
FROM rota.users u
LEFT JOIN (
    SELECT j.owner, sum(octet_length(o.body)) AS size
    FROM rota.output o JOIN (SELECT id, owner FROM rota.jobs UNION ALL SELECT id, owner FROM rota.history) j ON j.id = o.job
    WHERE o.stream <> 'cut' AND j.owner = ANY (:names::text[]) GROUP BY j.owner) raw ON raw.owner = u.name
LEFT JOIN (
    SELECT s.owner, sum(s.size) AS size FROM rota.segments s
    WHERE s.gone IS NULL AND s.owner = ANY (:names::text[]) GROUP BY s.owner) sealed ON sealed.owner = u.name
WHERE u.name = ANY (:names::text[])
