-- Checks of texts in orders by SQL, by the rules of Python orders: `model.limits.word` for users and queues, `options` for
-- the rest. Every printable character beyond ASCII counts as a letter: the locale of the database may know none.

-- A text without control, format, private and blank characters other than the space.
CREATE OR REPLACE FUNCTION rota.is_printable(given text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT given !~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb]' $$;

-- A name of a user or a queue.
CREATE OR REPLACE FUNCTION rota.is_word(given text) RETURNS boolean LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT length(given) BETWEEN 1 AND 100 AND given ~ '^([0-9A-Za-z_.@-]|[^\u0001-\u007f])+$' AND rota.is_printable(given) $$;

-- A caller's text for an error message: at most 80 characters, and none that would break the line.
CREATE OR REPLACE FUNCTION rota.one_line(given text) RETURNS text LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT CASE WHEN length(line) > 80 THEN left(line, 77) || '...' ELSE line END FROM (
        SELECT string_agg(CASE WHEN rota.is_printable(c) THEN c ELSE '\u' || lpad(to_hex(ascii(c)), 4, '0') END, '' ORDER BY n)
        FROM regexp_split_to_table(left(given, 81), '') WITH ORDINALITY AS one(c, n)) AS escaped(line) $$;
