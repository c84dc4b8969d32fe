-- Which module of its app declares a schedule; NULL: none does, or it was declared before this was recorded.
ALTER TABLE schedules ADD COLUMN module TEXT;
-- Since when the node of its app that started last has not declared it, though it could not tell that it is gone.
ALTER TABLE schedules ADD COLUMN undeclared_at INTEGER;
