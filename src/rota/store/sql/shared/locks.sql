-- name: take_lock
-- A free lock is taken by any token but the one that has released it; the holder takes it again under its fence. A fence
-- is the time, or one more than the last if that is higher: it rises also when the clock goes back, and after the row was
-- deleted.
INSERT INTO rota.locks AS l (owner, name, holder, fence, taken_at, expires_at)
VALUES (:owner, :name, :holder, rota.clock(:now), rota.clock(:now), rota.clock(:now) + :ttl::bigint)
ON CONFLICT (owner, name) DO UPDATE
SET fence = CASE WHEN l.holder = excluded.holder AND l.expires_at > rota.clock(:now) THEN l.fence
                 ELSE greatest(l.fence + 1, excluded.fence) END,
    taken_at = CASE WHEN l.holder = excluded.holder AND l.expires_at > rota.clock(:now) THEN l.taken_at
                    ELSE excluded.taken_at END,
    expires_at = excluded.expires_at, holder = excluded.holder, released = false
WHERE CASE WHEN l.holder = excluded.holder THEN NOT l.released
           ELSE l.released OR l.expires_at <= rota.clock(:now) END
RETURNING name, true, fence, taken_at, expires_at

-- name: renew_lock
UPDATE rota.locks SET expires_at = rota.clock(:now) + :ttl::bigint
WHERE owner = :owner AND name = :name AND holder = :holder AND fence = :fence
  AND NOT released AND expires_at > rota.clock(:now)

-- name: release_lock
UPDATE rota.locks SET expires_at = rota.clock(:now), released = true
WHERE owner = :owner AND name = :name AND holder = :holder AND (:fence::bigint IS NULL OR fence = :fence)
  AND NOT released AND expires_at > rota.clock(:now)

-- name: lock_was_released
SELECT 1 FROM rota.locks
WHERE owner = :owner AND name = :name AND holder = :holder AND (:fence::bigint IS NULL OR fence = :fence) AND released

-- name: free_lock
-- Without the token its holder hears at its next write that the lock is not its own any more.
UPDATE rota.locks SET expires_at = rota.clock(:now), released = true, holder = ''
WHERE owner = :owner AND name = :name AND NOT released AND expires_at > rota.clock(:now)

-- name: lock_rows
SELECT name, NOT released AND expires_at > rota.clock(:now) AS held, fence, taken_at, expires_at FROM rota.locks
WHERE owner = :owner ORDER BY held DESC, name LIMIT 1000

-- name: lock_rows_named
-- Apart from the list, so that who waits reads one row by its key.
SELECT name, NOT released AND expires_at > rota.clock(:now) AS held, fence, taken_at, expires_at FROM rota.locks
WHERE owner = :owner AND name = ANY (:names::text[]) ORDER BY held DESC, name LIMIT 1000

-- name: delete_free_locks
-- In the order in which they were taken, which renewals leave alone: an index on the ends would be written by each renewal.
DELETE FROM rota.locks WHERE (owner, name) IN (
    SELECT owner, name FROM rota.locks
    WHERE taken_at < rota.clock(:now) - :age::bigint AND expires_at < rota.clock(:now) - :age::bigint
    ORDER BY taken_at LIMIT :limit)
  AND expires_at < rota.clock(:now) - :age::bigint
