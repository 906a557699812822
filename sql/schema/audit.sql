-- The changes that operators made: one row for each HTTP request, and for each pause, resume or change
-- of a grant in SQL. See pkg/access/audit.
CREATE TABLE belfry.audit (
    id             uuid PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    subject        text, -- NULL without authentication.
    token_id       text,
    address        text NOT NULL,
    request_id     text NOT NULL,
    action         text NOT NULL,
    queue          text,
    partition      text,
    consumer_group text,
    transaction_id text,
    parameters     json NOT NULL,
    counts         json NOT NULL, -- The numbers of committed changes, even if the request then failed.
    result         text NOT NULL -- 'ok', or the code of the error.
);
CREATE INDEX audit_at ON belfry.audit (at, id);
CREATE INDEX audit_queue ON belfry.audit (queue, at, id);
CREATE INDEX audit_group ON belfry.audit (consumer_group, at, id);
CREATE INDEX audit_subject ON belfry.audit (subject, at, id);
CREATE INDEX audit_action ON belfry.audit (action, at, id);
