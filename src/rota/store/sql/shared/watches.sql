-- name: watch_state
SELECT until, lapsed, since, until > rota.clock(:now) FROM rota.watches WHERE owner = :owner FOR UPDATE

-- name: keep_watch
INSERT INTO rota.watches (owner, until, lapsed, since) VALUES (:owner, rota.clock(:now) + :life, :lapsed, :since)
ON CONFLICT (owner) DO UPDATE SET until = excluded.until, lapsed = excluded.lapsed, since = excluded.since

-- name: confirm_watch
UPDATE rota.watches SET since = rota.clock(:now) WHERE owner = :owner
