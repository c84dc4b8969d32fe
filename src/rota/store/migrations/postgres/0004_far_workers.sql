-- works with: 1
-- Far-away workers: nodes that joined through a server, and secrets that all API nodes share.

ALTER TABLE rota.nodes ADD COLUMN access_key text;   -- the access key with which it joined; NULL: it has the store itself
ALTER TABLE rota.nodes ADD COLUMN access_user text;
ALTER TABLE rota.nodes ADD COLUMN line text;         -- the line that it had open when it last renewed

CREATE TABLE rota.secrets (
    name  text NOT NULL PRIMARY KEY,
    value text NOT NULL
);
