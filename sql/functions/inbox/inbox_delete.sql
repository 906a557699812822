-- Deletes inbox rows in the transaction that appends their messages. Raises BF002 if a row is missing,
-- because another sequencer has appended the message of that row.
CREATE FUNCTION belfry.inbox_delete(p_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_taken bigint;
BEGIN
    DELETE FROM belfry.inbox i WHERE i.id = ANY (p_ids);
    GET DIAGNOSTICS v_taken = ROW_COUNT;
    IF v_taken <> cardinality(p_ids) THEN
        RAISE EXCEPTION 'another sequencer has moved % of % rows of the inbox', cardinality(p_ids) - v_taken, cardinality(p_ids)
            USING ERRCODE = 'BF002';
    END IF;
END $$;
