-- What attempts tell while they run, and what they used up.
ALTER TABLE attempts ADD COLUMN usage TEXT;

-- Apart from the jobs, and from each other: what is told five times a second must not rewrite what is long. `number` counts
-- what one attempt has told, so that a repeat of something older changes nothing.
CREATE TABLE progress (
    job      INTEGER PRIMARY KEY,
    fence    INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    fraction REAL CHECK (fraction BETWEEN 0 AND 1),   -- NULL: it can't tell how far it is
    text     TEXT    NOT NULL CHECK (length(text) <= 200),
    at       INTEGER NOT NULL
) STRICT;

-- What attempts have saved for those after them.
CREATE TABLE checkpoints (
    job    INTEGER PRIMARY KEY,
    fence  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    state  TEXT    NOT NULL                           -- JSON
) STRICT;
