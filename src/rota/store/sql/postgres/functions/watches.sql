-- Tells new jobs of watched users, an entry for all of an owner, queue and task. Jobs that a replay brings back (query `reopen`)
-- are no orders.
CREATE OR REPLACE FUNCTION rota.tell_orders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Jobs of one statement are as old as each other.
    IF EXISTS (SELECT FROM rota.watches w WHERE w.until > (SELECT f.created_at FROM fresh f LIMIT 1))
       AND current_setting('rota.reopens', true) IS DISTINCT FROM 'on' THEN
        INSERT INTO rota.outbox (at, kind, owner, subject, data)
        SELECT f.created_at, 'job.ordered', f.owner, '',
               json_build_object('queue', f.queue, 'task', f.task, 'jobs', json_agg(f.id ORDER BY f.id))::text
        FROM fresh f JOIN rota.watches w ON w.owner = f.owner AND w.until > f.created_at
        GROUP BY f.created_at, f.owner, f.queue, f.task;
    END IF;
    RETURN NULL;
END $$;
