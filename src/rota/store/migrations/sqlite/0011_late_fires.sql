-- Fires that were made up for, for searches by the time of the order: the ids of their jobs begin with another time
-- (store/search/plan.py has the bound).
CREATE INDEX fires_late ON fires (at) WHERE at - fire > 72000000000;
