-- Lets a role push to the queues whose names match the pattern. From the first such grant on, each
-- role needs one, except the owner of the schema, admins and superusers.
CREATE FUNCTION belfry.grant_push(role name, queue text) RETURNS void LANGUAGE sql AS $$
    SELECT belfry.change_grant('push', $1, $2, '*', false)
$$;
