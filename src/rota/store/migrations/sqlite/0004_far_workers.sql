-- Far-away workers: nodes that joined through a server, and secrets that all API nodes share.

ALTER TABLE nodes ADD COLUMN access_key TEXT;        -- the access key with which it joined; NULL: it has the store itself
ALTER TABLE nodes ADD COLUMN access_user TEXT;
ALTER TABLE nodes ADD COLUMN line TEXT;              -- the line that it had open when it last renewed

CREATE TABLE secrets (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
