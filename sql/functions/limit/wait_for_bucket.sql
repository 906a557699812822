-- Waits up to 50 ms until no other session has locked the part of a bucket.
CREATE FUNCTION belfry.wait_for_bucket(p_group bigint, p_tenant bigint, p_part bigint) RETURNS void LANGUAGE plpgsql SET lock_timeout = '50ms' AS $$
BEGIN
    PERFORM FROM belfry.limit_bucket b
      WHERE b.group_id = p_group AND b.tenant_id = p_tenant AND b.part >= p_part AND b.part <= p_part
      ORDER BY b.part DESC LIMIT 1 -- reads the newest version first
        FOR NO KEY UPDATE;
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;
