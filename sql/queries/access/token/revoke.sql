-- Revokes token $1, which expires at $2 (NULL: never, or unknown), notifies the servers, and returns the
-- role of the session. It deletes the rows of tokens that expired more than a day ago, because no server
-- accepts an expired token.
WITH ended AS (
    DELETE FROM belfry.revoked_token o WHERE o.expires_at < statement_timestamp() - interval '1 day' AND o.id <> $1::text
), revoked AS (
    INSERT INTO belfry.revoked_token AS r (id, expires_at) VALUES ($1::text, coalesce($2::timestamptz, 'infinity'))
    ON CONFLICT (id) DO UPDATE SET expires_at = greatest(r.expires_at, excluded.expires_at)
)
SELECT session_user::text, pg_notify('belfry_tokens', '')::text
