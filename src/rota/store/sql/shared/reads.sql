-- name: task_rows
SELECT info FROM rota.tasks ORDER BY name

-- name: append_event
INSERT INTO rota.outbox (at, kind, owner, subject, data) VALUES (rota.clock(:now), :kind, :owner, :subject, :data)

-- name: append_events
INSERT INTO rota.outbox (at, kind, owner, subject, data)
SELECT rota.clock(:now), :kind, owner, subject, data
FROM unnest(:owners::text[], :subjects::text[], :data::text[]) AS new(owner, subject, data)

-- name: event_rows
SELECT seq, at, kind, owner, subject, data FROM rota.outbox
WHERE seq > :after AND (:sees::text IS NULL OR owner = :sees OR owner = :shared) ORDER BY seq LIMIT :limit

-- name: workflow_names
SELECT id::text, name FROM rota.workflows WHERE id = ANY (:ids::uuid[])

-- name: schedule_names
SELECT DISTINCT name FROM rota.schedules
WHERE (:sees::text IS NULL OR owner = :sees) AND substr(name, 1, length(:prefix)) = :prefix ORDER BY name LIMIT :limit

-- name: names_of_workflows
-- Of the newest ones: names have no index.
SELECT DISTINCT name FROM (
    SELECT name FROM rota.workflows WHERE :sees::text IS NULL OR owner = :sees ORDER BY created_at DESC, id DESC LIMIT 5000
) AS newest
WHERE substr(name, 1, length(:prefix)) = :prefix ORDER BY name LIMIT :limit

-- name: node_names
-- Everyone may know the nodes.
SELECT DISTINCT id FROM rota.nodes
WHERE (:sees::text IS NULL OR true) AND substr(id, 1, length(:prefix)) = :prefix ORDER BY id LIMIT :limit
