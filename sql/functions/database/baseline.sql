-- The marker of the baseline migration. pkg/migrate refuses a database that has a schema version
-- and lacks this function: an unreleased version of Belfry made that database.
CREATE FUNCTION belfry.baseline() RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT 1
$$;
