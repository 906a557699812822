-- Raises BF010: the lease is over, or never existed. Both reasons for a lease that is over are in
-- the text, because the database does not remember which one applies.
CREATE FUNCTION belfry.raise_lease_lost(p_lease uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lease % is over, or was never given', p_lease USING ERRCODE = 'BF010',
        DETAIL = 'Either all its messages were acknowledged, or they are due again and may have been delivered to somebody else.',
        HINT = 'Roll back and pop again, unless they were acknowledged. '
            'Work that takes longer than the queue''s leaseTime calls belfry.extend(lease, seconds) in time.';
END $$;
