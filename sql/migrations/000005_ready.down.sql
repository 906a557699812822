DROP FUNCTION belfry.ready_at(
    bigint, bigint, bigint, timestamptz, timestamptz, bigint, bigint, boolean, timestamptz, integer);
ALTER TABLE belfry.partition DROP COLUMN holes, DROP COLUMN trimmed;
ALTER TABLE belfry.cursor
    DROP COLUMN redrives, DROP COLUMN start_at, DROP COLUMN expired, DROP COLUMN alone_until, DROP COLUMN retry_at;
