-- The ids (jti) of tokens that servers refuse. `belfry token revoke` writes it.
CREATE TABLE belfry.revoked_token (
    id         text PRIMARY KEY,
    expires_at timestamptz NOT NULL, -- 'infinity': the token does not expire, or its expiry is unknown.
    revoked_by name NOT NULL DEFAULT session_user,
    revoked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
