-- Sealed output: segments.

-- When each chunk was kept; 0: before this step. What is not sealed is read in this order.
ALTER TABLE output ADD COLUMN kept_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX output_kept ON output (kept_at);

-- Output of many attempts of one task in one compressed row. `store.cells` says how the segments of a job are found.
CREATE TABLE segments (
    id          TEXT    NOT NULL PRIMARY KEY,
    owner       TEXT    NOT NULL,
    task        TEXT    NOT NULL,
    lasting     INTEGER NOT NULL,              -- its time goes by that of dead letters
    kept_at     INTEGER NOT NULL,              -- when it was sealed; of a lasting one: when its jobs were last looked up
    first_at    INTEGER NOT NULL,              -- its lines are from this time,
    last_at     INTEGER NOT NULL,              -- by the clocks of their nodes
    lines       INTEGER NOT NULL,
    size        INTEGER NOT NULL,              -- bytes of the output, without marks
    cell        INTEGER NOT NULL,
    low_job     TEXT    NOT NULL,              -- the smallest job in it
    high_job    TEXT    NOT NULL,
    low_fence   INTEGER NOT NULL,              -- the positions of all chunks in it are within these
    low_number  INTEGER NOT NULL,
    high_fence  INTEGER NOT NULL,
    high_number INTEGER NOT NULL,
    stored      INTEGER NOT NULL,              -- bytes that it takes here
    gone        TEXT CHECK (gone = 'age' OR gone = 'space' OR gone = 'damaged'),   -- why nothing can be read from it any more
    jobs        BLOB    NOT NULL,              -- the ids in it, 16 bytes each
    words       BLOB    NOT NULL,              -- the filter
    body        BLOB    NOT NULL
) STRICT;
CREATE INDEX segments_cell ON segments (cell, low_job, high_job);
CREATE INDEX segments_of_owner ON segments (owner, last_at, id, size) WHERE gone IS NULL;
CREATE INDEX segments_newest ON segments (last_at, id, size) WHERE gone IS NULL;
CREATE INDEX segments_kept ON segments (lasting, kept_at, stored);
CREATE INDEX segments_small ON segments (owner, task, kept_at) WHERE gone IS NULL AND size < 131072;

-- Purged jobs whose output is still in segments, which are about to be rewritten without it.
CREATE TABLE purged (
    job TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;
