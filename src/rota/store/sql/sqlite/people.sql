-- name: hold_admins
-- There is one writer.
SELECT 1
