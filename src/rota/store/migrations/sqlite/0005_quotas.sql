-- Quotas for running jobs and for kept output.

-- The quota for running jobs is the limit of a key that people can't name: all jobs of its user need that key.
CREATE INDEX limits_running ON limits (owner) WHERE key = ' running';
CREATE VIEW running_quotas AS SELECT owner, key, concurrency FROM limits WHERE key = ' running';

ALTER TABLE users ADD COLUMN output_allowed INTEGER;                       -- bytes; NULL: without a bound
ALTER TABLE users ADD COLUMN output_kept INTEGER NOT NULL DEFAULT 0;       -- so many are kept,
ALTER TABLE users ADD COLUMN output_counted_at INTEGER NOT NULL DEFAULT 0; -- as counted then, plus what was written since
CREATE INDEX users_output ON users (name) WHERE output_allowed IS NOT NULL;
