-- works with: 7

-- Which module of its app declares a schedule; NULL: none does, or it was declared before this was recorded.
ALTER TABLE rota.schedules ADD COLUMN module text;
-- Since when the node of its app that started last has not declared it, though it could not tell that it is gone.
ALTER TABLE rota.schedules ADD COLUMN undeclared_at bigint;
