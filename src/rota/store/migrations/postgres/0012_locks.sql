-- works with: 1
-- Locks of users (model/locks.py). A free lock keeps its row for a while.

CREATE TABLE rota.locks (
    owner      text    NOT NULL,
    name       text    NOT NULL,
    holder     text    NOT NULL,                  -- the token of its last acquisition
    fence      bigint  NOT NULL,
    taken_at   bigint  NOT NULL,
    expires_at bigint  NOT NULL,                  -- it is held until then
    released   boolean NOT NULL DEFAULT false,    -- by its holder or by a person
    PRIMARY KEY (owner, name)
) WITH (fillfactor = 50);
CREATE INDEX locks_taken ON rota.locks (taken_at);
