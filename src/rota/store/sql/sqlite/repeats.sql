-- name: hold_repeat
-- Writers are one at a time here, so the key is free.
SELECT 1, route, digest, content FROM repeats WHERE owner = :owner AND key = :key AND step = :step AND expires_at > :now
