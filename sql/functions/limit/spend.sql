-- Takes the tokens that belfry.admit has reserved. Returns the instant of the next token if none is left.
CREATE FUNCTION belfry.spend(p_limits bigint, p_group bigint, p_messages bigint) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    l belfry.group_limit;
BEGIN
    SELECT o.* INTO l FROM belfry.group_limit o WHERE o.id = p_limits;
    IF l.rate_messages IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT t.next_at
              FROM belfry.take_tokens(p_group, 0, l.rate_messages, l.rate_per, l.rate_burst, p_messages, true) AS t);
END $$;
