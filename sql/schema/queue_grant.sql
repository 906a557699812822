-- A grant lets a role push to some queues, or consume some queues as some groups. belfry.grant_push,
-- belfry.grant_consume and the functions that revoke write it. While a kind has no row, Belfry does not
-- check it. A revoked grant stays as a row, so revoking the last grant does not allow every role.
CREATE TABLE belfry.queue_grant (
    kind           text NOT NULL CHECK (kind IN ('push', 'consume')),
    grantee        regrole NOT NULL,
    queue          text NOT NULL, -- queue and consumer_group are patterns; see belfry.matches.
    consumer_group text NOT NULL, -- '*' if the kind is push.
    granted_by     name NOT NULL,
    granted_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at     timestamptz,
    PRIMARY KEY (kind, grantee, queue, consumer_group)
);
