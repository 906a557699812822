-- Inbox rows that the sequencer could not push. A row stays until an operator deletes it or
-- retries it (belfry.inbox_retry).
CREATE TABLE belfry.inbox_rejected (
    id             bigint PRIMARY KEY, -- The id of the row in the inbox.
    queue          text NOT NULL,
    partition      text NOT NULL,
    payload        json NOT NULL,
    transaction_id text,
    trace_id       uuid,
    visible_at     timestamptz,
    headers        json,
    tenant         text,
    inserted_at    timestamptz NOT NULL,
    rejected_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    code           text NOT NULL, -- invalid, too_large or queue_full.
    reason         text NOT NULL -- The error in words.
);
