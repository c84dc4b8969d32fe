-- name: hold_repeat
SELECT free, route, digest, content FROM rota.hold_repeat(:owner, :key, :step, :now)
