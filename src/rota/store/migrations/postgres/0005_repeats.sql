-- works with: 1
-- Writes that carry an idempotency key, so that a repeat is recognised. A row is written in the transaction of its write.
CREATE TABLE rota.repeats (
    owner      text    NOT NULL,
    key        text    NOT NULL,                -- the hash of the idempotency key
    step       integer NOT NULL,                -- a request may need several writes
    route      text    NOT NULL,
    digest     text    NOT NULL,                -- of the request
    content    bytea,                           -- the answer; NULL: it was too large
    expires_at bigint  NOT NULL,
    PRIMARY KEY (owner, key, step)
);
CREATE INDEX repeats_expiry ON rota.repeats (expires_at);
