-- Raises BF001 in a push whose caller has outdated knowledge of a partition. The caller looks the
-- names up again and repeats the push.
CREATE FUNCTION belfry.raise_partition_gone() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a partition of this push does not exist any more' USING ERRCODE = 'BF001';
END $$;
