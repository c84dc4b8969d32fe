-- name: bound_output
-- Counted anew, and until then as full as it was.
UPDATE rota.users SET output_allowed = :allowed::bigint, output_counted_at = 0 WHERE name = :name

-- name: hold_output
-- Appends of a user with a quota for output wait for each other here.
SELECT name, output_allowed, output_kept FROM rota.users
WHERE name = ANY (:names::text[]) AND output_allowed IS NOT NULL ORDER BY name FOR UPDATE

-- name: save_output
UPDATE rota.users SET output_kept = used.size FROM unnest(:names::text[], :sizes::bigint[]) AS used(name, size)
WHERE users.name = used.name

-- name: uncounted_output
SELECT name FROM rota.users WHERE output_allowed IS NOT NULL AND output_counted_at <= rota.clock(:now)
  - CASE WHEN output_kept + :nearly::bigint > output_allowed THEN :again::bigint ELSE :anyway::bigint END

-- name: keep_output_counts
UPDATE rota.users SET output_kept = greatest(output_kept - counted.before + counted.size, 0), output_counted_at = rota.clock(:now)
FROM unnest(:names::text[], :before::bigint[], :sizes::bigint[]) AS counted(name, before, size) WHERE users.name = counted.name
