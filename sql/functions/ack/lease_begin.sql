-- Returns the begin of a lease, which is part of an id of version 7. A SQL consumer's lease has no begin.
CREATE FUNCTION belfry.lease_begin(p_lease uuid) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN substr(p_lease::text, 15, 1) = '7'
                THEN to_timestamp(('x0000' || translate(left(p_lease::text, 13), '-', ''))::bit(64)::bigint / 1000.0) END
$$;
