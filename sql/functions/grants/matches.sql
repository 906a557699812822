-- Reports whether a pattern matches a name. In a pattern * matches any run of characters, also an empty
-- one. Every other character matches itself. E strings mean the same in sessions with
-- standard_conforming_strings = off.
CREATE FUNCTION belfry.matches(p_name text, p_pattern text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_name COLLATE "C" LIKE replace(replace(replace(replace(p_pattern, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_'), '*', '%')
$$;
