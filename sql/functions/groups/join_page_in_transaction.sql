-- Runs belfry.join_page inside the transaction of a SQL consumer. Returns whether the join is done.
CREATE FUNCTION belfry.join_page_in_transaction(p_group bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    j record;
BEGIN
    SELECT k.done, k.unready INTO j FROM belfry.join_page(p_group, 2000) AS k;
    PERFORM belfry.mark_ready(p_group, j.unready);
    RETURN j.done;
END $$;
