-- name: insert_user
INSERT INTO rota.users (name, created_at, created_by, quotas) VALUES (:name, rota.clock(:now), :by, :quotas)
ON CONFLICT (name) DO NOTHING

-- name: set_quotas
-- The next order counts the waiting jobs.
UPDATE rota.users SET quotas = :quotas, counted_at = 0 WHERE name = :name

-- name: delete_user
DELETE FROM rota.users WHERE name = :name

-- name: user_rows
SELECT u.name, u.created_at, u.created_by, u.quotas,
       (SELECT count(*) FROM rota.access_keys k
        WHERE k.owner = u.name AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > rota.clock(:now)))
FROM rota.users u WHERE (:sees::text IS NULL OR u.name = :sees) ORDER BY u.name

-- name: user_exists
-- Held, so that it is not removed meanwhile.
SELECT name FROM rota.users WHERE name = :name FOR KEY SHARE

-- name: hold_quotas
-- Orders of a user with quotas wait for each other here; others have no row to hold.
SELECT quotas, full_until, waiting, counted_at, rota.clock(:now) FROM rota.users
WHERE name = :name AND quotas <> '{}' FOR UPDATE

-- name: quotas_of
SELECT quotas, full_until, rota.clock(:now), CASE WHEN output_allowed IS NULL THEN 0 ELSE output_kept END
FROM rota.users WHERE name = :name

-- name: running_jobs_of
SELECT count(*) FROM rota.living WHERE owner = :owner AND state = 'running'

-- name: save_use
UPDATE rota.users SET full_until = :full_until, waiting = :waiting, counted_at = :counted_at WHERE name = :name

-- name: waiting_jobs_of
SELECT count(*) FROM rota.living WHERE owner = :owner AND state <> 'running'

-- name: count_schedules_of
SELECT count(*) FROM rota.schedules WHERE owner = :owner

-- name: keys_known_of
SELECT count(*) FROM rota.keys WHERE owner = :owner AND key = ANY (:keys::text[])

-- name: insert_access_key
INSERT INTO rota.access_keys (id, hash, owner, name, role, rights, created_at, created_by, expires_at)
VALUES (:id, :hash, :owner, :name, :role, :rights, rota.clock(:now), :by, :expires_at)
ON CONFLICT DO NOTHING

-- name: access_key_rows
SELECT id, owner, name, role, rights, created_at, created_by, expires_at, last_used_at, revoked_at, replaces
FROM rota.access_keys
WHERE (:id::text IS NULL OR id = :id) AND (:owner::text IS NULL OR owner = :owner)
  AND (:past::boolean OR (revoked_at IS NULL AND (expires_at IS NULL OR expires_at > rota.clock(:now))))
ORDER BY owner, created_at, id

-- name: grant_row
SELECT id, owner, role, rights, expires_at FROM rota.access_keys
WHERE hash = :hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > rota.clock(:now))

-- name: live_admin_keys
SELECT id, owner FROM rota.access_keys
WHERE role = 'admin' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > rota.clock(:now))

-- name: revoke_access_key
UPDATE rota.access_keys SET revoked_at = rota.clock(:now) WHERE id = :id AND revoked_at IS NULL

-- name: revoke_access_keys_of
UPDATE rota.access_keys SET revoked_at = rota.clock(:now) WHERE owner = :owner AND revoked_at IS NULL

-- name: copy_access_key
-- Without another expiry the new key lives as long as the old one was to live.
INSERT INTO rota.access_keys (id, hash, owner, name, role, rights, created_at, created_by, expires_at, replaces)
SELECT :new_id, :hash, owner, name, role, rights, rota.clock(:now), :by,
       coalesce(:expires_at::bigint, rota.clock(:now) + expires_at - created_at), id
FROM rota.access_keys
WHERE id = :id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > rota.clock(:now))
ON CONFLICT DO NOTHING

-- name: expire_access_key
UPDATE rota.access_keys
SET expires_at = least(coalesce(expires_at, rota.clock(:now) + :overlap), rota.clock(:now) + :overlap)
WHERE id = :id

-- name: touch_access_keys
UPDATE rota.access_keys
SET last_used_at = greatest(coalesce(last_used_at, 0), used.at)
FROM unnest(:ids::text[], :ats::bigint[]) AS used(id, at) WHERE access_keys.id = used.id

-- name: append_audit
INSERT INTO rota.audit (at, actor, key, deed, subjects, total, data)
VALUES (rota.clock(:now), :actor, :key, :deed, :subjects, :total, :data)

-- name: audit_rows
SELECT seq, at, actor, key, deed, subjects, total, data FROM rota.audit
WHERE (:actor::text IS NULL OR actor = :actor) AND (:deed::text IS NULL OR deed = :deed)
  AND at >= :since::bigint AND at < :until::bigint AND (at, seq) < (:at::bigint, :seq::bigint)
ORDER BY at DESC, seq DESC LIMIT :limit

-- name: delete_old_audit
DELETE FROM rota.audit WHERE seq IN (
    SELECT seq FROM rota.audit WHERE at < rota.clock(:now) - :age::bigint ORDER BY at LIMIT :limit)

-- name: delete_old_access_keys
DELETE FROM rota.access_keys WHERE id IN (
    SELECT id FROM rota.access_keys
    WHERE coalesce(revoked_at, expires_at) < rota.clock(:now) - :age::bigint LIMIT :limit)
