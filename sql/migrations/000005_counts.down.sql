DROP FUNCTION belfry.partition_counts(bigint, bigint, bigint, bigint);
ALTER TABLE belfry.partition DROP COLUMN IF EXISTS trimmed, DROP COLUMN IF EXISTS holes;
