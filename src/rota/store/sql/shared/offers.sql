-- name: make_known
INSERT INTO rota.tasks (name, info, seen_at, offered)
SELECT new.name, new.info, rota.clock(:now), false FROM unnest(:names::text[], :infos::text[]) AS new(name, info)
WHERE NOT EXISTS (SELECT FROM rota.tasks t WHERE t.name = new.name) ORDER BY new.name
ON CONFLICT (name) DO NOTHING

-- name: someone_waits
SELECT EXISTS (SELECT FROM rota.jobs j WHERE j.state = 'ready' AND j.kind = 'function' AND j.queue = :queue AND j.task = :task
                 AND (:sees::text IS NULL OR j.owner = :sees))
