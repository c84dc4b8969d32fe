-- works with: 1
-- Users of access keys. `full_until` and `waiting` tell how much of the quotas is used (carriers/quotas.py).
CREATE TABLE rota.users (
    name       text   PRIMARY KEY,
    created_at bigint NOT NULL,
    created_by text   NOT NULL,
    quotas     text   NOT NULL DEFAULT '{}',    -- JSON
    full_until bigint NOT NULL DEFAULT 0,
    waiting    bigint NOT NULL DEFAULT 0,       -- so many of its jobs wait,
    counted_at bigint NOT NULL DEFAULT 0        -- as counted then, plus those ordered by keys since
);

-- Only the hash of a key is kept. Ended keys stay until the audit has forgotten them.
CREATE TABLE rota.access_keys (
    id           text   PRIMARY KEY,
    hash         text   NOT NULL UNIQUE,
    owner        text   NOT NULL,
    name         text   NOT NULL,
    role         text   NOT NULL,
    rights       text   NOT NULL,               -- JSON: queues, tasks and further permissions
    created_at   bigint NOT NULL,
    created_by   text   NOT NULL,
    expires_at   bigint,
    last_used_at bigint,
    revoked_at   bigint,
    replaces     text                           -- the key that it was rotated from
);
CREATE INDEX access_keys_owner ON rota.access_keys (owner);

-- What people did, a row per accepted write, in its transaction. `subjects`: the first of `total`, as JSON.
CREATE TABLE rota.audit (
    seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       bigint NOT NULL,
    actor    text   NOT NULL,
    key      text   NOT NULL,                   -- the id of the access key; '': with the address of the store
    deed     text   NOT NULL,
    subjects text   NOT NULL,
    total    bigint NOT NULL,
    data     text   NOT NULL                    -- JSON
);
CREATE INDEX audit_at    ON rota.audit (at, seq);
CREATE INDEX audit_actor ON rota.audit (actor, at, seq);
