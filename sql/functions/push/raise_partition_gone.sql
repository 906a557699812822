-- Raised inside a push that remembers a partition wrongly (it is gone, closing,
-- or its queue began to seal): the caller looks the names up again and repeats
-- the push.
CREATE FUNCTION belfry.raise_partition_gone() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a partition of this push is gone' USING ERRCODE = 'BF001';
END $$;
