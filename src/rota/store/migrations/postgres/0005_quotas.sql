-- works with: 1
-- Quotas for running jobs and for kept output.

-- The quota for running jobs is the limit of a key that people can't name: all jobs of its user need that key.
CREATE INDEX limits_running ON rota.limits (owner) WHERE key = ' running';
CREATE VIEW rota.running_quotas AS SELECT owner, key, concurrency FROM rota.limits WHERE key = ' running';

ALTER TABLE rota.users ADD COLUMN output_allowed bigint;                       -- bytes; NULL: without a bound
ALTER TABLE rota.users ADD COLUMN output_kept bigint NOT NULL DEFAULT 0;       -- so many are kept,
ALTER TABLE rota.users ADD COLUMN output_counted_at bigint NOT NULL DEFAULT 0; -- as counted then, plus what was written since
CREATE INDEX users_output ON rota.users (name) WHERE output_allowed IS NOT NULL;
