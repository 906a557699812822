-- Sets the session settings that this version of Postgres knows. $1 names, $2 values,
-- $3 for each setting the only value to replace, '' to replace any value. The schema
-- search path may still be that of the role, so every name is qualified.
SELECT pg_catalog.set_config(s.name, s.value, false)
  FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[], $3::pg_catalog.text[]) AS s (name, value, instead_of),
       pg_catalog.current_setting(s.name, true) AS current (value)
 WHERE current.value IS NOT NULL AND (s.instead_of = '' OR s.instead_of = current.value)
