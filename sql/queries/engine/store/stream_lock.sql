-- Begins a cycle of the query $1: holds the query against its deletion, and holds off other cycles of
-- the query in the same partition, which have the same $2. No row: the query does not exist. The conflict
-- locks the row and changes nothing.
WITH query AS MATERIALIZED (
    SELECT s.id FROM belfry.stream s WHERE s.uid = $1::uuid FOR KEY SHARE OF s
), locked AS (
    INSERT INTO belfry.stream_cycle AS c (stripe)
    SELECT $2::integer FROM query
        ON CONFLICT (stripe) DO UPDATE SET stripe = excluded.stripe WHERE false
)
SELECT q.id FROM query q
