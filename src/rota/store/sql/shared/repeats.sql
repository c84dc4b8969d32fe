-- name: kept_repeats
SELECT step, route, digest, content FROM rota.repeats
WHERE owner = :owner AND key = :key AND expires_at > rota.clock(:now) ORDER BY step

-- name: keep_repeat
-- All steps of a request expire with its first one: a part of them would mislead a repeat. The row of a key that has
-- expired and was not pruned yet is replaced.
INSERT INTO rota.repeats (owner, key, step, route, digest, content, expires_at)
VALUES (:owner, :key, :step, :route, :digest, :content,
        coalesce((SELECT f.expires_at FROM rota.repeats f
                  WHERE f.owner = :owner AND f.key = :key AND f.step = 0 AND :step::integer > 0),
                 rota.clock(:now) + :life::bigint))
ON CONFLICT (owner, key, step) DO UPDATE
SET route = excluded.route, digest = excluded.digest, content = excluded.content, expires_at = excluded.expires_at
WHERE repeats.expires_at <= rota.clock(:now)

-- name: delete_old_repeats
DELETE FROM rota.repeats WHERE (owner, key, step) IN (
    SELECT owner, key, step FROM rota.repeats WHERE expires_at <= rota.clock(:now) ORDER BY expires_at LIMIT :limit)
