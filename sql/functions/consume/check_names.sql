-- Raises an error if a queue name or a group name is NULL, empty, . or .., longer than 255 bytes or not
-- valid UTF-8.
CREATE FUNCTION belfry.check_names(p_queue text, p_group text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM pg_catalog.convert_to(p_queue, 'UTF8'), pg_catalog.convert_to(p_group, 'UTF8');
    IF coalesce(octet_length(p_queue) NOT BETWEEN 1 AND 255 OR p_queue IN ('.', '..'), true) THEN
        RAISE EXCEPTION 'the name of the queue is %', coalesce(CASE WHEN p_queue IN ('.', '..') THEN p_queue ELSE octet_length(p_queue) || ' bytes long' END, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has 1 to 255 bytes, and is not . or .., because clients remove these from paths.';
    ELSIF coalesce(octet_length(p_group) NOT BETWEEN 1 AND 255 OR p_group IN ('.', '..'), true) THEN
        RAISE EXCEPTION 'the name of the consumer group is %', coalesce(CASE WHEN p_group IN ('.', '..') THEN p_group ELSE octet_length(p_group) || ' bytes long' END, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has 1 to 255 bytes, and is not . or .., because clients remove these from paths.';
    END IF;
END $$;
