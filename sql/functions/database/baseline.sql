-- The marker of the baseline migration, with a digest of it as comment. pkg/postgres/migrate refuses a
-- database that has a schema version and lacks this marker: an unreleased version of Belfry made it.
CREATE FUNCTION belfry.baseline() RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT 1
$$;
