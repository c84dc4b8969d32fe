-- works with: 1
-- Sealed output: segments.

-- What is not sealed is read in this order. (With the job in it, the index would seem to serve look-ups by job.)
CREATE INDEX output_kept ON rota.output (kept_at);

-- Output of many attempts of one task in one compressed row. `store.cells` says how the segments of a job are found.
CREATE TABLE rota.segments (
    id          uuid    NOT NULL,
    owner       text    NOT NULL,
    task        text    NOT NULL,
    lasting     boolean NOT NULL,              -- its time goes by that of dead letters
    kept_at     bigint  NOT NULL,              -- when it was sealed; of a lasting one: when its jobs were last looked up
    first_at    bigint  NOT NULL,              -- its lines are from this time,
    last_at     bigint  NOT NULL,              -- by the clocks of their nodes
    lines       bigint  NOT NULL,
    size        bigint  NOT NULL,              -- bytes of the output, without marks
    cell        bigint  NOT NULL,
    low_job     uuid    NOT NULL,              -- the smallest job in it
    high_job    uuid    NOT NULL,
    low_fence   bigint  NOT NULL,              -- the positions of all chunks in it are within these
    low_number  bigint  NOT NULL,
    high_fence  bigint  NOT NULL,
    high_number bigint  NOT NULL,
    stored      bigint  NOT NULL,              -- bytes that it takes here
    gone        text CHECK (gone IN ('age', 'space', 'damaged')),   -- why nothing can be read from it any more
    jobs        bytea   NOT NULL,              -- the ids in it, 16 bytes each
    words       bytea   NOT NULL,              -- the filter
    body        bytea   NOT NULL
) PARTITION BY LIST (lasting);
-- They are compressed already, or don't shrink.
ALTER TABLE rota.segments ALTER COLUMN jobs SET STORAGE EXTERNAL, ALTER COLUMN words SET STORAGE EXTERNAL,
                          ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE rota.segments_lasting PARTITION OF rota.segments FOR VALUES IN (true);
CREATE TABLE rota.segments_dated   PARTITION OF rota.segments FOR VALUES IN (false) PARTITION BY RANGE (kept_at);
CREATE TABLE rota.segments_other   PARTITION OF rota.segments_dated DEFAULT;
CREATE INDEX segments_id       ON rota.segments (id);
CREATE INDEX segments_cell     ON rota.segments (cell, low_job, high_job);
CREATE INDEX segments_of_owner ON rota.segments (owner, last_at, id) INCLUDE (size) WHERE gone IS NULL;
CREATE INDEX segments_newest   ON rota.segments (last_at, id) INCLUDE (size) WHERE gone IS NULL;
CREATE INDEX segments_kept     ON rota.segments (kept_at) INCLUDE (stored);
CREATE INDEX segments_small    ON rota.segments (owner, task, kept_at) WHERE gone IS NULL AND size < 131072;

-- Purged jobs whose output is still in segments, which are about to be rewritten without it.
CREATE TABLE rota.purged (
    job uuid NOT NULL PRIMARY KEY
);
