-- The trigger on belfry.inbox that checks grants; see change_grant. It runs with the rights of the
-- statement, so current_user is the role that Postgres let insert: after SET ROLE the new role,
-- and for an attached table its owner. The fixed search path keeps operators of the caller out. No
-- setting that a producer may change turns it off.
CREATE FUNCTION belfry.inbox_check() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM belfry.check_push_grants(current_user, ARRAY(SELECT DISTINCT n.queue FROM belfry_new n));
    RETURN NULL;
END $$;
