-- Begins a cycle of the stream $1. Until the commit, the stream cannot be deleted, and other cycles of
-- the stream in the same partition wait, because they lock the same row $2 of stream_cycle. No row: the
-- stream does not exist. ON CONFLICT locks the row and changes nothing.
WITH query AS MATERIALIZED (
    SELECT s.id FROM belfry.stream s WHERE s.uid = $1::uuid FOR KEY SHARE OF s
), locked AS (
    INSERT INTO belfry.stream_cycle AS c (stripe)
    SELECT $2::integer FROM query
        ON CONFLICT (stripe) DO UPDATE SET stripe = excluded.stripe WHERE false
)
SELECT q.id FROM query q
