-- Who does the housekeeping first. One row; the term rises whenever the leader changes.
CREATE TABLE leader (
    only        INTEGER PRIMARY KEY CHECK (only = 1),
    term        INTEGER NOT NULL,
    incarnation TEXT    NOT NULL,
    since       INTEGER NOT NULL
) STRICT;
INSERT INTO leader VALUES (1, 0, '', 0);
