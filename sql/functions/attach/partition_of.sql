-- The partition of a message: the texts of its key, those that are not NULL, with
-- a slash between them. A name that would be too long is its hash instead. It is called
-- where the table's schema is in the path.
CREATE FUNCTION belfry.partition_of(VARIADIC p_key text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN k.name IS NULL OR k.name = '' THEN 'Default'
                WHEN pg_catalog.octet_length(k.name) > 255 THEN 'md5:' || pg_catalog.md5(k.name)
                ELSE k.name END
      FROM (SELECT pg_catalog.array_to_string(p_key, '/') AS name) AS k
$$;
