-- Writes the size of spool $1 of host $2: $3 messages, $4 rejected messages, $5 bytes in total.
INSERT INTO belfry.spool AS s (id, host, messages, rejected, bytes) VALUES ($1::uuid, $2::text, $3::bigint, $4::bigint, $5::bigint)
ON CONFLICT (id) DO UPDATE SET host = excluded.host, messages = excluded.messages, rejected = excluded.rejected, bytes = excluded.bytes,
    changed_at = excluded.changed_at
