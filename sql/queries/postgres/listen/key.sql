-- Returns the key of notifications in hex, because the text form of bytea depends on settings of the database.
SELECT encode(k.key, 'hex') FROM belfry.channel_key k
