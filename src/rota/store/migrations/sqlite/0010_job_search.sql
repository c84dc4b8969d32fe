-- Indexes for searches (store/search). Ended jobs by what most conditions are about; an entry is written when a job ends.
CREATE INDEX jobs_ended_as ON jobs (owner, state, queue, task, id) WHERE finished_at IS NOT NULL;
-- Live jobs by their owner, newest last; claims and retries don't touch it.
CREATE INDEX jobs_living   ON jobs (owner, id) WHERE finished_at IS NULL;
