-- Sets the session settings that this version of Postgres knows. By array: $1 names, $2 values, $3 the
-- only value to replace ('': any value). The search path of the role may still be in effect, so every
-- name has its schema.
SELECT pg_catalog.set_config(s.name, s.value, false)
  FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[], $3::pg_catalog.text[]) AS s (name, value, instead_of),
       pg_catalog.current_setting(s.name, true) AS current (value)
 WHERE current.value IS NOT NULL AND (s.instead_of = '' OR s.instead_of = current.value)
