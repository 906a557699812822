DROP FUNCTION belfry.partition_counts(bigint, bigint, bigint, bigint);
