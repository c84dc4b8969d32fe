-- name: lock_node
-- Waits until no claim of the node is under way.
SELECT FROM rota.nodes WHERE incarnation = :incarnation FOR UPDATE

-- name: end_node
UPDATE rota.nodes SET state = :state::text, seen_at = CASE WHEN :state::text = 'left' THEN rota.clock(:now) ELSE seen_at END
WHERE incarnation = :incarnation AND state IN ('live', 'stopping') AND (:beats::bigint IS NULL OR beats = :beats)
RETURNING id

-- name: ready_kinds
SELECT DISTINCT kind FROM rota.jobs WHERE state = 'ready'

-- name: delete_old_nodes
DELETE FROM rota.nodes WHERE incarnation IN (
    SELECT incarnation FROM rota.nodes
    WHERE state IN ('left', 'dead') AND seen_at < rota.clock(:now) - :age::bigint LIMIT :limit)

-- name: make_secret
INSERT INTO rota.secrets (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING

-- name: secret
SELECT value FROM rota.secrets WHERE name = :name
