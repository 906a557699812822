CREATE OR REPLACE FUNCTION belfry.raise_lease_lost(p_lease uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'lease % is over, or was never given', p_lease USING ERRCODE = 'BF010',
        DETAIL = 'Its messages are due again, and may have been delivered to somebody else.',
        HINT = 'Roll back and pop again. Work that takes longer than the queue''s leaseTime calls belfry.extend(lease, seconds) in time.';
END $$;
