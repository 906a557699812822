-- Returns a UUID of version 7: the first 48 bits are the time in milliseconds. UUIDs that are
-- created one after another are neighbours in an index.
CREATE FUNCTION belfry.uuid_v7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(
               overlay(uuid_send(gen_random_uuid())
                       PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6),
               52, 1), 53, 1), 'hex')::uuid
$$;
