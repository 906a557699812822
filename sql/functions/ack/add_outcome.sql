-- Adds completed messages or failed deliveries to an outcome, in the order in which they happened.
CREATE FUNCTION belfry.add_outcome(p_outcome belfry.outcome, p_completed bigint, p_failed bigint, p_error bytea) RETURNS belfry.outcome
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    p_outcome.completed := coalesce(p_outcome.completed, 0) + p_completed;
    p_outcome.failed := coalesce(p_outcome.failed, 0) + p_failed;
    p_outcome.run := CASE WHEN p_completed > 0 THEN 0 ELSE coalesce(p_outcome.run, 0) + p_failed END;
    p_outcome.error := coalesce(convert_from(p_error, 'UTF8'), p_outcome.error);
    RETURN p_outcome;
END $$;
