-- name: server_now
SELECT rota.clock(NULL)

-- name: whereabouts
SELECT current_database()::text, pg_postmaster_start_time()::text

-- name: insert_node
-- ON CONFLICT: the first answer got lost and the node repeats the call. It holds no job yet.
INSERT INTO rota.nodes (incarnation, id, roles, queues, tasks, version, state, started_at, seen_at, lease, lock, server,
                        access_key, access_user)
VALUES (:incarnation, :id, :roles, :queues, :tasks::text[], :version, 'live', rota.clock(:now), rota.clock(:now), :lease,
        :lock, :server, :access_key, :access_user)
ON CONFLICT (incarnation) DO UPDATE SET state = 'live', started_at = rota.clock(:now), seen_at = rota.clock(:now),
                                        server = excluded.server, line = NULL
WHERE nodes.access_key IS NOT DISTINCT FROM excluded.access_key

-- name: lock_number
-- Serialises transactions with the same lock number.
SELECT pg_advisory_xact_lock(:number)

-- name: living_with_id
-- A node that was silent for its lease loses its id: after a restart of all nodes, none is left to declare it dead.
SELECT incarnation, seen_at, lock, server FROM rota.nodes
WHERE id = :id AND state IN ('live', 'stopping') AND seen_at > rota.clock(:now) - lease

-- name: upsert_tasks
INSERT INTO rota.tasks (name, info, seen_at)
SELECT name, info, rota.clock(:now) FROM unnest(:names::text[], :infos::text[]) AS new(name, info) ORDER BY name
ON CONFLICT (name) DO UPDATE SET info = excluded.info, seen_at = excluded.seen_at, offered = true

-- name: renew
-- Renews the lease and returns all news: the jobs it holds, whether there is work or a due time, the leader.
WITH moment AS MATERIALIZED (
    SELECT rota.clock(:now) AS now
), me AS (
    -- `busy_since` bounds the read of the index of running jobs, whose low end may be full of dead entries. No claim
    -- takes longer than 30 s from its look at the clock to its commit.
    UPDATE rota.nodes n
    SET beats = beats + 1, seen_at = moment.now, server = :server, line = :line, state = CASE WHEN :stopping THEN 'stopping' ELSE state END,
        busy_since = least(moment.now - 30000000, (SELECT min(j.claimed_at) FROM rota.jobs j
                                                   WHERE j.node = :incarnation AND j.claimed_at >= n.busy_since))
    FROM moment WHERE n.incarnation = :incarnation AND n.state IN ('live', 'stopping')
    RETURNING n.state, n.roles, n.queues, n.busy_since
), lead AS (
    -- The first control node that renews while there is no live leader becomes the leader.
    UPDATE rota.leader l SET incarnation = :incarnation, term = l.term + 1, since = moment.now
    FROM me, moment
    WHERE me.state = 'live' AND me.roles::jsonb ? 'control' AND l.incarnation <> :incarnation
      AND NOT EXISTS (SELECT FROM rota.nodes n WHERE n.incarnation = l.incarnation AND n.state = 'live')
    RETURNING l.term
)
SELECT moment.now, EXISTS (SELECT FROM me) AS known,
       (SELECT coalesce(json_agg(json_build_array(j.id, j.fence, j.cancel)), '[]') FROM rota.jobs j
        WHERE j.node = :incarnation AND j.claimed_at >= (SELECT busy_since FROM me)) AS holds,
       EXISTS (SELECT FROM me, jsonb_object_keys(me.queues::jsonb) AS mine(queue), unnest(:kinds::text[]) AS known(kind),
                           LATERAL (SELECT 1 FROM rota.jobs j WHERE j.state = 'ready' AND j.queue = mine.queue
                                    AND j.kind = known.kind AND (j.rank, j.id) >= (:floor::bigint, :floor_id::uuid)
                                    LIMIT 1) AS work) AS ready,
       coalesce((SELECT j.run_at <= moment.now FROM rota.jobs j
                 WHERE j.state = 'scheduled' AND j.run_at >= :due_floor::bigint ORDER BY j.run_at LIMIT 1), false)
       OR coalesce((SELECT j.expires_at <= moment.now FROM rota.jobs j
                    WHERE j.expires_at IS NOT NULL AND j.node IS NULL ORDER BY j.expires_at LIMIT 1), false) AS due,
       coalesce((SELECT s.next_at <= moment.now FROM rota.schedules s WHERE s.next_at IS NOT NULL ORDER BY s.next_at LIMIT 1), false)
       OR EXISTS (SELECT FROM rota.fires f WHERE f.waiting) AS fires,
       EXISTS (SELECT FROM rota.settling) AS ties,
       (SELECT coalesce(array_agg(q.name), '{}') FROM rota.queues q WHERE q.feedback) AS feedback,
       EXISTS (SELECT FROM rota.freed) OR EXISTS (SELECT FROM rota.gates)
       OR EXISTS (SELECT FROM rota.jobs j WHERE j.held_by >= 'a:' AND j.held_by < 'k;') AS gates,
       coalesce((SELECT term FROM lead),
                (SELECT l.term FROM rota.leader l JOIN me ON me.state = 'live' WHERE l.incarnation = :incarnation)) AS term
FROM moment

-- name: really_gone
-- Whether the node's lock is free, on the server where it was taken, and the node has not renewed for the grace. The
-- row is locked first: this waits for a renewal under way, and blocks later ones until the transaction ends. The node
-- can't take its lock again either. (Shared: observers must not take each other for the owner.)
SELECT pg_try_advisory_xact_lock_shared(silent.lock) FROM (
    SELECT lock FROM rota.nodes
    WHERE incarnation = :incarnation AND state IN ('live', 'stopping') AND server = rota.server()
      AND seen_at <= rota.clock(:now) - :grace::bigint FOR UPDATE) silent

-- name: held_by
SELECT id::text, fence, started_at IS NOT NULL, crashes FROM rota.jobs WHERE node = :incarnation ORDER BY id FOR UPDATE

-- name: stray_holders
-- Incarnations that hold running jobs and are not alive.
SELECT DISTINCT j.node FROM rota.jobs j LEFT JOIN rota.nodes n ON n.incarnation = j.node
WHERE j.node IS NOT NULL AND (n.state IS NULL OR n.state NOT IN ('live', 'stopping'))

-- name: node_rows
-- The query tries each lock in shared mode, so that observers don't take each other for the owner.
SELECT n.incarnation, n.id, n.roles, n.queues, n.version, n.state, n.started_at, n.seen_at, n.lease, n.beats,
       (SELECT count(*) FROM rota.jobs j WHERE j.node = n.incarnation AND j.claimed_at >= n.busy_since
               AND (:sees::text IS NULL OR j.owner = :sees)) AS running,
       n.state = 'live' AND EXISTS (SELECT FROM rota.leader l WHERE l.incarnation = n.incarnation) AS leads,
       n.access_key, n.access_user, n.line,
       CASE WHEN n.state IN ('live', 'stopping') AND n.server = rota.server() AND n.incarnation <> ALL (:own::text[])
            THEN pg_try_advisory_xact_lock_shared(n.lock) ELSE false END AS free,
       rota.clock(:now) AS now
FROM rota.nodes n WHERE :past OR n.state IN ('live', 'stopping') ORDER BY n.started_at, n.incarnation
