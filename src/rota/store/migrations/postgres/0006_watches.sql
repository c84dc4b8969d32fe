-- works with: 1
-- Users whose orders and starts of jobs are told as events, because somebody listens (store/carriers/watches.py).

CREATE TABLE rota.watches (
    owner  text   NOT NULL PRIMARY KEY,
    until  bigint NOT NULL,                       -- unless it is renewed
    lapsed bigint,                                -- when the one before it ended; NULL: there was none
    since  bigint                                 -- from when all are told; NULL: this is not certain yet
) WITH (fillfactor = 50);

-- after functions
CREATE TRIGGER jobs_ordered AFTER INSERT ON rota.jobs
REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION rota.tell_orders();
