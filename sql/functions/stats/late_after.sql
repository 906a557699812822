-- Returns from which age in seconds on an unfinished message makes its group late: half of the maxWaitTimeSeconds of the
-- queue, p_max_wait_time, or p_default if the queue has none. NULL: the group is never late. A sweep deletes the message
-- at the age of maxWaitTimeSeconds, so half of it leaves time to react.
CREATE FUNCTION belfry.late_after(p_max_wait_time bigint, p_default float8) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN p_max_wait_time > 0 THEN p_max_wait_time / 2.0::float8 WHEN p_default > 0 THEN p_default END
$$;
