-- Reads a rate from the JSON of limits. All results are NULL if the member is absent.
CREATE FUNCTION belfry.read_rate(p_from jsonb, p_member text, OUT messages bigint, OUT per interval, OUT burst bigint) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    PERFORM belfry.limit_members(p_from, ARRAY[p_member], '{messages,per,burst}');
    messages := belfry.limit_number(p_from, ARRAY[p_member, 'messages'], 1, 1000000);
    per := belfry.limit_duration(p_from, ARRAY[p_member, 'per'], '1 millisecond');
    burst := coalesce(belfry.limit_number(p_from, ARRAY[p_member, 'burst'], 1, 1000000), messages);
    IF nullif(p_from -> p_member, 'null') IS NULL THEN
        RETURN;
    ELSIF messages IS NULL OR per IS NULL THEN
        RAISE EXCEPTION '% has no %', p_member, CASE WHEN messages IS NULL THEN 'messages' ELSE 'per' END USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give both, such as {"messages": 100, "per": "1s"}.';
    ELSIF messages > 1000000 * extract(epoch FROM per) THEN
        RAISE EXCEPTION '% has % messages in %', p_member, messages, belfry.duration_text(per) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The greatest rate is 1000000 messages a second. Give fewer messages or a longer time.';
    END IF;
END $$;
