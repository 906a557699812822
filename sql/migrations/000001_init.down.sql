-- Everything Belfry stored is gone after this. The schema itself stays: it
-- holds the migration record.
DROP FUNCTION belfry.join_group(text, text, text, text, timestamptz);
DROP FUNCTION belfry.open_partitions(text[], text[], bigint, bigint);
DROP FUNCTION belfry.raise_partition_gone();
DROP FUNCTION belfry.seq_at(bigint, timestamptz);
DROP FUNCTION belfry.ready_at(bigint, bigint, bigint, timestamptz, timestamptz, bigint, bigint, boolean);
DROP FUNCTION belfry.due_at(bigint, bigint, timestamptz, bigint, bigint);
DROP TABLE belfry.dead_letter;
DROP TABLE belfry.cursor;
DROP TABLE belfry.consumer_group;
DROP TABLE belfry.message;
DROP TABLE belfry.partition;
DROP TABLE belfry.queue;
