-- Writes that carry an idempotency key, so that a repeat is recognised. A row is written in the transaction of its write.
CREATE TABLE repeats (
    owner      TEXT    NOT NULL,
    key        TEXT    NOT NULL,                 -- the hash of the idempotency key
    step       INTEGER NOT NULL,                 -- a request may need several writes
    route      TEXT    NOT NULL,
    digest     TEXT    NOT NULL,                 -- of the request
    content    BLOB,                             -- the answer; NULL: it was too large
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (owner, key, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX repeats_expiry ON repeats (expires_at);
