-- Users of access keys. `full_until` and `waiting` tell how much of the quotas is used (carriers/quotas.py).
CREATE TABLE users (
    name       TEXT    NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    created_by TEXT    NOT NULL,
    quotas     TEXT    NOT NULL DEFAULT '{}',   -- JSON
    full_until INTEGER NOT NULL DEFAULT 0,
    waiting    INTEGER NOT NULL DEFAULT 0,      -- so many of its jobs wait,
    counted_at INTEGER NOT NULL DEFAULT 0       -- as counted then, plus those ordered by keys since
) STRICT, WITHOUT ROWID;

-- Only the hash of a key is kept. Ended keys stay until the audit has forgotten them.
CREATE TABLE access_keys (
    id           TEXT    NOT NULL PRIMARY KEY,
    hash         TEXT    NOT NULL UNIQUE,
    owner        TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    role         TEXT    NOT NULL,
    rights       TEXT    NOT NULL,               -- JSON: queues, tasks and further permissions
    created_at   INTEGER NOT NULL,
    created_by   TEXT    NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    revoked_at   INTEGER,
    replaces     TEXT                            -- the key that it was rotated from
) STRICT, WITHOUT ROWID;
CREATE INDEX access_keys_owner ON access_keys (owner);

-- What people did, a row per accepted write, in its transaction. `subjects`: the first of `total`, as JSON.
CREATE TABLE audit (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    actor    TEXT    NOT NULL,
    key      TEXT    NOT NULL,                   -- the id of the access key; '': with the address of the store
    deed     TEXT    NOT NULL,
    subjects TEXT    NOT NULL,
    total    INTEGER NOT NULL,
    data     TEXT    NOT NULL                    -- JSON
) STRICT;
CREATE INDEX audit_at    ON audit (at);
CREATE INDEX audit_actor ON audit (actor, at);
