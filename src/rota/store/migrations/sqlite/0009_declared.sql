-- Which module of its app declares a schedule; NULL: none does, or it was declared before this was recorded.
ALTER TABLE schedules ADD COLUMN module TEXT;
-- Since when the node of its app that started last has not declared it, though it could not tell that it is gone.
ALTER TABLE schedules ADD COLUMN undeclared_at INTEGER;

-- Older versions may have worked out a wrong next fire, or have taken rules that are refused now. So all schedules are due
-- once, and the scheduler works out the next fire anew or sets the schedule aside. The cursor moves up to now: fires before
-- now that the older version did not know of are not made up for. Schedules with a fire that is due keep their cursor, and
-- those that have ended stay ended.
UPDATE schedules SET next_at = moment.now, handled = max(handled, moment.now)
FROM (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS now) AS moment
WHERE next_at > moment.now;
