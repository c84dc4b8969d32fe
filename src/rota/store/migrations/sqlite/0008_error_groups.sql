-- The group of the error with which a job failed (model/error_groups.py). NULL: it did not fail, or it failed before this
-- step; the housekeeping gives such jobs their groups. The index concerns neither claims nor successes, and no search for
-- dead letters in general takes it by mistake.
ALTER TABLE jobs ADD COLUMN error_group TEXT;
CREATE INDEX jobs_error_group ON jobs (error_group, finished_at, id) WHERE error_group IS NOT NULL;
