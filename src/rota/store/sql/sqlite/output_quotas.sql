-- name: last_output
-- The last chunk of each attempt.
SELECT j.id, o.fence, o.number, o.stream, iif(o.stream = 'cut', o.body, x'')
FROM json_each(:rows) wanted JOIN jobs j ON j.id = wanted.value ->> 'jobs'
JOIN output o ON o.job = j.seq AND o.fence = wanted.value ->> 'fences'
WHERE o.number = (SELECT max(l.number) FROM output l WHERE l.job = j.seq AND l.fence = o.fence)

-- name: cut_sizes
-- Bytes of the chunks that marks are about to replace, by owner. Rows: seq, fence, first, last.
SELECT j.owner, sum(length(o.body)) FROM json_each(:cuts) c JOIN jobs j ON j.seq = c.value ->> 0
JOIN output o ON o.job = j.seq AND o.fence = c.value ->> 1 AND o.number BETWEEN c.value ->> 2 AND c.value ->> 3
WHERE o.stream <> 'cut' GROUP BY j.owner

-- name: count_output
-- Bytes of kept output, sealed and unsealed. (The size of a chunk is read without the chunk.)
SELECT u.name, u.output_kept,
       coalesce((SELECT sum(length(o.body)) FROM output o CROSS JOIN jobs j ON j.seq = o.job
                 WHERE j.owner = u.name AND o.stream <> 'cut'), 0)
       + coalesce((SELECT sum(s.size) FROM segments s WHERE s.owner = u.name AND s.gone IS NULL), 0)
FROM users u WHERE u.name IN (SELECT value FROM json_each(:names))
