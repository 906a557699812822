-- Returns the session settings that differ from the values that Belfry needs, with the quoted names of
-- the role and the database. By array: $1 names, $2 the values that Belfry needs, $3 the only value that
-- Belfry cannot use ('': Belfry can only use $2).
SELECT s.name, current.value, s.value, quote_ident(current_user), quote_ident(current_database())
  FROM unnest($1::text[], $2::text[], $3::text[]) AS s (name, value, instead_of),
       current_setting(s.name, true) AS current (value)
 WHERE current.value <> s.value AND (s.instead_of = '' OR s.instead_of = current.value)
