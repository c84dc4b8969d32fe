-- The value at a path of a text that should be JSON; NULL if it leads nowhere or the text is no JSON. Rows may have been written by hand,
-- and one of them must not fail a search.
CREATE OR REPLACE FUNCTION rota.json_at(body text, path text[]) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN body::jsonb #> path;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

-- The text without the case of ASCII letters.
CREATE OR REPLACE FUNCTION rota.folded(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT translate(given, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz') $$;
