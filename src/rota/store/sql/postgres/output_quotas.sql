-- name: last_output
-- The last chunk of each attempt.
SELECT wanted.job::text, wanted.fence, last.number, last.stream, CASE WHEN last.stream = 'cut' THEN last.body ELSE '' END
FROM unnest(:jobs::uuid[], :fences::bigint[]) AS wanted(job, fence)
CROSS JOIN LATERAL (SELECT o.number, o.stream, o.body FROM rota.output o WHERE o.job = wanted.job AND o.fence = wanted.fence
                    ORDER BY o.number DESC LIMIT 1) AS last

-- name: count_output
-- Bytes of kept output, from one snapshot with the number that the row has. (The size of a chunk is read without the chunk.)
SELECT u.name, u.output_kept, coalesce(sum(octet_length(o.body)), 0)::bigint
FROM rota.users u
LEFT JOIN (SELECT id, owner FROM rota.jobs UNION ALL SELECT id, owner FROM rota.history) j ON j.owner = u.name
LEFT JOIN rota.output o ON o.job = j.id AND o.stream <> 'cut'
WHERE u.name = ANY (:names::text[]) GROUP BY u.name, u.output_kept
