-- Jobs that wait for others, and workflows: jobs that were ordered together.
ALTER TABLE jobs ADD COLUMN tied    INTEGER NOT NULL DEFAULT 0;   -- others wait for its end
ALTER TABLE jobs ADD COLUMN parents INTEGER NOT NULL DEFAULT 0;   -- how many it was ordered after,
ALTER TABLE jobs ADD COLUMN waits   INTEGER NOT NULL DEFAULT 0;   -- and how many of them have not ended as needed

CREATE TABLE edges (
    child    TEXT    NOT NULL,
    parent   TEXT    NOT NULL,
    need     TEXT    NOT NULL CHECK (need = 'success' OR need = 'finish' OR need = 'failure'),
    standing TEXT    NOT NULL DEFAULT 'open' CHECK (standing = 'open' OR standing = 'met' OR standing = 'broken'),
    PRIMARY KEY (child, parent)
) STRICT, WITHOUT ROWID;
CREATE INDEX edges_open   ON edges (parent, child) WHERE standing = 'open';
CREATE INDEX edges_parent ON edges (parent);

-- Jobs to be looked at on behalf of those that wait for them: they have ended, or someone has just begun to wait. Whoever
-- ends a job in whatever way can't forget to put it here.
CREATE TABLE settling (job TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TRIGGER tied_job_ended AFTER UPDATE OF state ON jobs WHEN old.tied AND old.finished_at IS NULL AND new.finished_at IS NOT NULL
BEGIN
    INSERT OR IGNORE INTO settling VALUES (new.id);
END;

CREATE TABLE workflows (
    id         TEXT    NOT NULL PRIMARY KEY,
    owner      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX workflows_latest ON workflows (created_at, id);

CREATE TABLE members (
    workflow TEXT    NOT NULL,
    job      TEXT    NOT NULL PRIMARY KEY,
    place    INTEGER NOT NULL                   -- the order in which they were ordered
) STRICT, WITHOUT ROWID;
CREATE INDEX members_workflow ON members (workflow, place);
