-- Sets the sink ($2) and the hash ($3) of stream $1. $4: also delete the state of the stream.
WITH reset AS (
    DELETE FROM belfry.stream_state s WHERE $4::boolean AND s.stream_id = $1::bigint
)
UPDATE belfry.stream s SET sink = $2::text, config_hash = $3::text, updated_at = clock_timestamp() WHERE s.id = $1::bigint
