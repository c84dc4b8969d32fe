-- name: insert_node
-- ON CONFLICT: the first answer got lost and the node repeats the call. It holds no job yet.
INSERT INTO nodes (incarnation, id, roles, queues, tasks, version, state, started_at, seen_at, lease, access_key,
                   access_user)
VALUES (:incarnation, :id, :roles, :queues, :tasks, :version, 'live', :now, :now, :lease, :access_key, :access_user)
ON CONFLICT (incarnation) DO UPDATE SET state = 'live', started_at = :now, seen_at = :now, line = NULL
WHERE nodes.access_key IS excluded.access_key

-- name: upsert_task
INSERT INTO tasks (name, info, seen_at) VALUES (:name, :info, :now)
ON CONFLICT (name) DO UPDATE SET info = excluded.info, seen_at = excluded.seen_at, offered = 1

-- name: renew_node
UPDATE nodes SET beats = beats + 1, seen_at = :now, line = :line, state = iif(:stopping, 'stopping', state)
WHERE incarnation = :incarnation AND state IN ('live', 'stopping')

-- name: holds_of
SELECT id, fence, cancel FROM jobs WHERE state = 'running' AND node = :incarnation

-- name: held_by
SELECT id, fence, started_at IS NOT NULL, crashes FROM jobs WHERE state = 'running' AND node = :incarnation

-- name: stray_holders
-- Incarnations that hold running jobs and are not alive.
SELECT DISTINCT j.node FROM jobs j LEFT JOIN nodes n ON n.incarnation = j.node
WHERE j.state = 'running' AND (n.state IS NULL OR n.state NOT IN ('live', 'stopping'))

-- name: living_nodes
SELECT incarnation, id, roles, queues, version, state, started_at, seen_at, lease, beats,
       (SELECT count(*) FROM jobs j WHERE j.state = 'running' AND j.node = n.incarnation AND (:sees IS NULL OR j.owner = :sees)),
       EXISTS (SELECT 1 FROM leader l WHERE l.incarnation = n.incarnation AND n.state = 'live'),
       access_key, access_user, line
FROM nodes n WHERE state IN ('live', 'stopping') ORDER BY started_at, incarnation

-- name: all_nodes
SELECT incarnation, id, roles, queues, version, state, started_at, seen_at, lease, beats,
       (SELECT count(*) FROM jobs j WHERE j.state = 'running' AND j.node = n.incarnation AND (:sees IS NULL OR j.owner = :sees)),
       EXISTS (SELECT 1 FROM leader l WHERE l.incarnation = n.incarnation AND n.state = 'live'),
       access_key, access_user, line
FROM nodes n ORDER BY started_at, incarnation

-- name: lead
-- The first control node that renews while there is no live leader becomes the leader.
UPDATE leader SET incarnation = :incarnation, term = term + 1, since = :now
WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.incarnation = leader.incarnation AND n.state = 'live')
  AND EXISTS (SELECT 1 FROM nodes n, json_each(n.roles) role
              WHERE n.incarnation = :incarnation AND n.state = 'live' AND role.value = 'control')

-- name: term_of
SELECT term FROM leader JOIN nodes n USING (incarnation) WHERE incarnation = :incarnation AND n.state = 'live'
