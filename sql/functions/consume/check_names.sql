-- Raises an error if a queue name or a group name is NULL, empty, longer than 255 bytes or not
-- valid UTF-8.
CREATE FUNCTION belfry.check_names(p_queue text, p_group text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM pg_catalog.convert_to(p_queue, 'UTF8'), pg_catalog.convert_to(p_group, 'UTF8');
    IF coalesce(octet_length(p_queue) NOT BETWEEN 1 AND 255, true) THEN
        RAISE EXCEPTION 'the name of the queue is %', coalesce(octet_length(p_queue) || ' bytes long', 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It has 1 to 255 bytes.';
    ELSIF coalesce(octet_length(p_group) NOT BETWEEN 1 AND 255, true) THEN
        RAISE EXCEPTION 'the name of the consumer group is %', coalesce(octet_length(p_group) || ' bytes long', 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'It has 1 to 255 bytes.';
    END IF;
END $$;
