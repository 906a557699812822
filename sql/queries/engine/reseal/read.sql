-- Reads messages. By array: $1 partition ids, $2 seqs. key_id is the keyId of the envelope: '' for
-- encryption.key, NULL for an older envelope and for clear text. The payload is NULL in two cases: if $4
-- is false and the key with the id $3 encrypted it, and if $5 is false and it is clear text.
SELECT m.ord, m.encrypted, m.key_id,
       CASE WHEN m.encrypted AND ($4::boolean OR m.key_id IS DISTINCT FROM $3::text) OR NOT m.encrypted AND $5::boolean
            THEN m.payload END AS payload
  FROM (SELECT k.ord, m.encrypted, m.payload, CASE WHEN m.encrypted THEN m.payload ->> 'keyId' END AS key_id
          FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS k(partition_id, seq, ord)
          JOIN belfry.message m ON m.partition_id = k.partition_id AND m.seq = k.seq) AS m
