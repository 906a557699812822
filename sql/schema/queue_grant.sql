-- Which role may push to which queues, and consume which queues as which groups. belfry.grant_push,
-- belfry.grant_consume and the functions that revoke write it. A kind without any row is not
-- checked. A revoked grant stays as a row, so revoking the last grant does not let everybody in.
CREATE TABLE belfry.queue_grant (
    kind           text NOT NULL CHECK (kind IN ('push', 'consume')),
    grantee        regrole NOT NULL,
    queue          text NOT NULL, -- A pattern, as the next one; see belfry.matches.
    consumer_group text NOT NULL, -- '*' if the kind is push.
    granted_by     name NOT NULL,
    granted_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at     timestamptz,
    PRIMARY KEY (kind, grantee, queue, consumer_group)
);
