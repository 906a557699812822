-- Returns the bytes of one message in the answer of a pop: its payload, its names and headers, and
-- 1024 for the rest. If exact is false, a compressed payload counts 256 times its compressed size, because pglz and
-- lz4 expand a value at most 256 times. The body is one expression, so the planner inlines it.
CREATE FUNCTION belfry.delivery_bytes(payload json, transaction_id text, producer_sub text, headers json, exact boolean)
RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT 1024 + octet_length($2) + coalesce(octet_length($3), 0) + coalesce(octet_length($4::text), 0) + CASE
        WHEN pg_column_compression($1) IS NULL THEN pg_column_size($1)
        WHEN $5 THEN octet_length($1::text)
        ELSE 256 * least(pg_column_size($1), 8000000) END
$$;
