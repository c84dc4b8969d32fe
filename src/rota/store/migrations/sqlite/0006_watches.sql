-- Users whose orders and starts of jobs are told as events, because somebody listens (store/carriers/watches.py).

CREATE TABLE watches (
    owner  TEXT    NOT NULL PRIMARY KEY,
    until  INTEGER NOT NULL,                      -- unless it is renewed
    lapsed INTEGER,                               -- when the one before it ended; NULL: there was none
    since  INTEGER                                -- from when all are told; NULL: this is not certain yet
) STRICT, WITHOUT ROWID;
