-- Ready functions by task. A node reads the tasks that it offers here, so functions of other apps are never in its way.
CREATE INDEX jobs_ready_by_task ON jobs (queue, task, rank) WHERE state = 'ready' AND kind = 'function';

-- A client makes its tasks known before a node offers them; only a node sets `offered`.
ALTER TABLE tasks ADD COLUMN offered INTEGER NOT NULL DEFAULT 1;
