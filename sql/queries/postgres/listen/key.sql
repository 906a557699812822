-- Returns the key of notifications as hex, because a database may show bytea in another form.
SELECT encode(k.key, 'hex') FROM belfry.channel_key k
