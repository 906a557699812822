-- Returns what happens to a message of a group that has no retry left: 'deadLetter', 'block' or 'skip'.
CREATE FUNCTION belfry.on_exhausted(p_group bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT l.on_exhausted
                       FROM belfry.consumer_group g
                       JOIN belfry.group_limit l ON l.id = g.limits_id
                      WHERE g.id = p_group), 'deadLetter')
$$;
