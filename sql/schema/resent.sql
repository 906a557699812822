-- A message that an operator sent again as a new message, with changes. The row describes the new message
-- and is deleted with the old one.
CREATE TABLE belfry.resent (
    partition_id   bigint NOT NULL, -- The partition and the seq of the old message.
    seq            bigint NOT NULL,
    message_id     uuid NOT NULL,
    queue          text NOT NULL,
    partition      text NOT NULL,
    transaction_id text NOT NULL,
    sent_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    sender         text, -- The subject, or else the address. NULL: unknown.
    PRIMARY KEY (partition_id, seq, message_id)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
