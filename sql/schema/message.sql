-- The log of messages. It has no foreign keys: each would cost an index look-up and a share lock for every
-- row, and the lock on the partition's row already gives the same guarantee.
CREATE TABLE belfry.message (
    partition_id   bigint NOT NULL,
    seq            bigint NOT NULL, -- The position, from 1. Deleted messages leave gaps.
    created_at     timestamptz NOT NULL, -- It never decreases within a partition.
    visible_at     timestamptz, -- No pop returns the message before this instant; NULL: no delay.
    id             uuid NOT NULL,
    trace_id       uuid,
    encrypted      boolean NOT NULL DEFAULT false, -- The payload is encrypted with the key of the server.
    -- The client chooses transaction_id to prevent duplicates. It is unique within a partition.
    transaction_id text COLLATE "C" NOT NULL,
    producer_sub   text, -- The subject of the producer's token.
    headers        json, -- An object of texts; see pkg/queue/headers.go. NULL: no headers.
    payload        json NOT NULL,
    PRIMARY KEY (partition_id, seq),
    UNIQUE (partition_id, transaction_id)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
