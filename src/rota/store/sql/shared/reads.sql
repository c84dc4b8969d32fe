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
