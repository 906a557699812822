-- Raises BF010: the lease is over, or never existed. The text has both reasons why a lease is over,
-- because the database does not store which reason applies.
CREATE FUNCTION belfry.raise_lease_lost(p_lease uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lease % is over, or never existed', p_lease USING ERRCODE = 'BF010',
        DETAIL = 'Either all its messages were acknowledged, or they are due again and may have been delivered to another consumer.',
        HINT = 'Roll back and pop again, unless the messages were acknowledged. '
            'For work that takes longer than the queue''s leaseTime, call belfry.extend(lease, seconds) in time.';
END $$;
