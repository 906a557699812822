-- Returns the epoch of the data. The epoch changes when Postgres starts again, for example on a standby
-- or on restored files, and when the table partition is rewritten, restored or truncated. In a new epoch
-- an id may belong to another row, so a server then drops everything that it knows by id.
CREATE FUNCTION belfry.epoch() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT ((date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint << 8)
           # pg_relation_filenode('belfry.partition'::regclass)::bigint
$$;
