-- A message that one group gave up. The row of the message stays in the log.
CREATE TABLE belfry.dead_letter (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partition_id bigint NOT NULL,
    seq          bigint NOT NULL,
    group_id     bigint NOT NULL,
    attempts     integer NOT NULL,
    failed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    error        text,
    -- The shape of the error, by which lists group dead letters. Postgres computes it, so every insert agrees.
    shape        text COLLATE "C" GENERATED ALWAYS AS (belfry.error_shape(error)) STORED,
    UNIQUE (partition_id, group_id, seq)
) WITH (vacuum_truncate = false, toast.vacuum_truncate = false);
CREATE INDEX dead_letter_failed ON belfry.dead_letter (group_id, failed_at);
-- A sweep checks whether any group has a dead letter for a message.
CREATE INDEX dead_letter_message ON belfry.dead_letter (partition_id, seq);
