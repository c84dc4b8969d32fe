-- name: kept_repeats
SELECT step, route, digest, content FROM rota.repeats
WHERE owner = :owner AND key = :key AND expires_at > rota.clock(:now) ORDER BY step

-- name: keep_repeat
-- The row of a key that has expired and was not pruned yet is replaced.
INSERT INTO rota.repeats (owner, key, step, route, digest, content, expires_at)
VALUES (:owner, :key, :step, :route, :digest, :content, rota.clock(:now) + :life::bigint)
ON CONFLICT (owner, key, step) DO UPDATE
SET route = excluded.route, digest = excluded.digest, content = excluded.content, expires_at = excluded.expires_at
WHERE repeats.expires_at <= rota.clock(:now)

-- name: delete_old_repeats
DELETE FROM rota.repeats WHERE (owner, key, step) IN (
    SELECT owner, key, step FROM rota.repeats WHERE expires_at <= rota.clock(:now) ORDER BY expires_at LIMIT :limit)
