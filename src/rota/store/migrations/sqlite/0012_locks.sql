-- Locks of users (model/locks.py). A free lock keeps its row for a while.

CREATE TABLE locks (
    owner      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    holder     TEXT    NOT NULL,                  -- the token of its last acquisition
    fence      INTEGER NOT NULL,
    taken_at   INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,                  -- it is held until then
    released   INTEGER NOT NULL DEFAULT 0,        -- by its holder or by a person
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX locks_taken ON locks (taken_at);
