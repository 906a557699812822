-- A stand-in for the inbox, which another branch brings.
CREATE TABLE belfry.inbox (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue          text NOT NULL,
    partition      text NOT NULL DEFAULT 'Default',
    payload        json NOT NULL,
    transaction_id text,
    trace_id       uuid,
    visible_at     timestamptz,
    xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
    inserted_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
