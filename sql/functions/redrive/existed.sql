-- Reports whether a dead letter existed at a count. p_xmin is the transaction that inserted it, p_failed_at its failure. p_counted
-- is the snapshot of the count, and p_counted_at its instant. A dead letter is never updated, so its xmin says when it came.
--
-- An xmin has 32 bits. The function takes the transaction that is nearest to the snapshot. That is wrong for a row that is more
-- than 2^31 transactions old. So a dead letter that failed a day before the count always existed.
CREATE FUNCTION belfry.existed(p_xmin xid, p_failed_at timestamptz, p_counted pg_snapshot, p_counted_at timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT p_failed_at < p_counted_at - interval '1 day' OR p_xmin::text::bigint < 3
        OR pg_visible_in_snapshot(greatest(3, pg_snapshot_xmax(p_counted)::text::bigint - 2147483648
               + (p_xmin::text::bigint - pg_snapshot_xmax(p_counted)::text::bigint % 4294967296 + 6442450944) % 4294967296)::text::xid8, p_counted)
$$;
