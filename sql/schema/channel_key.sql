-- The key of notifications (pkg/postgres/listen). It encrypts the names in a notification, and proves
-- that belfry.await or a server sent the notification.
CREATE TABLE belfry.channel_key (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    key    bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
);
INSERT INTO belfry.channel_key DEFAULT VALUES;
