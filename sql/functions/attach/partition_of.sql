-- Returns the partition name for a key: the texts that are not NULL, joined by a slash. A hash replaces
-- a name above 255 bytes, and the names . and .., which clients remove from URL paths.
CREATE FUNCTION belfry.partition_of(VARIADIC p_key text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN k.name IS NULL OR k.name = '' THEN 'Default'
                WHEN pg_catalog.octet_length(k.name) > 255 OR k.name IN ('.', '..') THEN 'md5:' || pg_catalog.md5(k.name)
                ELSE k.name END
      FROM (SELECT pg_catalog.array_to_string(p_key, '/') AS name) AS k
$$;
