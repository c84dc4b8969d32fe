-- works with: 1
-- Ended jobs by what most conditions are about (store/search). Searches read each partition by itself, so a partition may
-- still be without the index: large ones get it from the housekeeping, without a lock on their writers.
CREATE INDEX history_as       ON ONLY rota.history       (owner, state, queue, task, id);
CREATE INDEX history_dated_as ON ONLY rota.history_dated (owner, state, queue, task, id);
ALTER INDEX rota.history_as ATTACH PARTITION rota.history_dated_as;

DO $$
DECLARE
    leaf record;
BEGIN
    FOR leaf IN SELECT c.relname AS name, t.parentrelid FROM pg_partition_tree('rota.history') t JOIN pg_class c ON c.oid = t.relid
                WHERE t.isleaf AND pg_relation_size(c.oid) < 4000000
    LOOP
        EXECUTE format('CREATE INDEX %I ON rota.%I (owner, state, queue, task, id)', leaf.name || '_as', leaf.name);
        EXECUTE format('ALTER INDEX rota.%I ATTACH PARTITION rota.%I',
                       CASE leaf.parentrelid WHEN 'rota.history'::regclass THEN 'history_as' ELSE 'history_dated_as' END, leaf.name || '_as');
    END LOOP;
END $$;
