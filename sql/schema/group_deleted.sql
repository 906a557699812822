-- A group whose deletion has begun. The row in consumer_group is already deleted, so every pop, ack
-- and extend fails. The cursors and dead letters of the group are deleted in small transactions.
CREATE TABLE belfry.group_deleted (
    group_id bigint PRIMARY KEY,
    queue_id bigint NOT NULL
);
