-- The marker of the baseline migration. The comment on it is a digest of the migration. pkg/postgres/migrate
-- refuses a database with a schema version and no marker: an unreleased version of Belfry created it.
CREATE FUNCTION belfry.baseline() RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT 1
$$;
