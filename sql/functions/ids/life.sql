-- Which life of its data this database is in: another one begins when Postgres starts
-- again, perhaps on a standby or on files that were put back, and when the table of
-- partitions is made anew, restored or truncated. Ids may stand for something else then,
-- so what a server remembers by id counts for one life (pkg/store/doc.go).
CREATE FUNCTION belfry.life() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT ((date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint << 8)
           # pg_relation_filenode('belfry.partition'::regclass)::bigint
$$;
