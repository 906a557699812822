-- A group whose row in consumer_group is deleted, so every pop, ack and extend fails. Its cursors and
-- dead letters are deleted in small transactions.
CREATE TABLE belfry.group_deleted (
    group_id bigint PRIMARY KEY,
    queue_id bigint NOT NULL
);
