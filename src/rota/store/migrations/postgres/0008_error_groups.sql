-- works with: 1
-- The group of the error with which a job failed (model/error_groups.py). NULL: it did not fail, or a node of an earlier
-- version ended it; the housekeeping gives such jobs their groups. Only dead letters are indexed.
ALTER TABLE rota.history ADD COLUMN error_group text;
CREATE INDEX history_error_group ON rota.history_lasting (error_group, finished_at, id);
