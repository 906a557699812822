-- The trigger on belfry.inbox that checks grants; see change_grant. It runs with the rights of the
-- statement, so current_user is the role that inserts: after SET ROLE the new role, and for an attached
-- table the owner of the table. With the fixed search path the caller cannot replace an operator. A
-- producer cannot turn the trigger off with a setting.
CREATE FUNCTION belfry.inbox_check() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM belfry.check_push_grants(current_user, ARRAY(SELECT DISTINCT n.queue FROM belfry_new n));
    RETURN NULL;
END $$;
