-- Reports whether a pattern matches a name. In a pattern * matches any run of characters, also an empty
-- one. Every other character matches itself. The body uses E strings: a plain string with a backslash
-- means something else in a session with standard_conforming_strings = off.
CREATE FUNCTION belfry.matches(p_name text, p_pattern text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_name COLLATE "C" LIKE replace(replace(replace(replace(p_pattern, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_'), '*', '%')
$$;
