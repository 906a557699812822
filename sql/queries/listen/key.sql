-- Returns the key of notifications.
SELECT k.key FROM belfry.channel_key k
