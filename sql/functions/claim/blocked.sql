-- The value of cursor.retry_at that marks a blocked cursor: the first message has no retry left, and the group
-- has onExhausted = 'block'. ready_at follows retry_at, so nothing makes the cursor due before belfry.unblock.
-- The value is finite, and less than 292 years ahead: Postgres before 17 cannot subtract from infinity, and the
-- servers store differences in a time.Duration. The index cursor_blocked has the same value.
CREATE FUNCTION belfry.blocked() RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT timestamptz '2200-01-01 00:00:00+00'
$$;
