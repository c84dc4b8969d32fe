-- name: hold_admins
-- Whoever ends admin keys, or adds the first one, does so alone: two callers could each spare the key of the other.
LOCK TABLE rota.access_keys IN SHARE ROW EXCLUSIVE MODE
