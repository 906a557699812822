-- Writes the audit row of a request, or completes the row. $1 id, $2 subject, $3 token id, $4 address,
-- $5 request id, $6 action, $7 queue, $8 partition, $9 group, $10 transaction id, $11 parameters, $12
-- counts (NULL: the stored counts stay), $13 result.
INSERT INTO belfry.audit AS a (id, subject, token_id, address, request_id, action, queue, partition, consumer_group,
                               transaction_id, parameters, counts, result)
VALUES ($1::uuid, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text,
        $10::text, $11::json, coalesce($12::json, '{}'), $13::text)
ON CONFLICT (id) DO UPDATE
   SET counts = CASE WHEN $12::json IS NULL THEN a.counts ELSE excluded.counts END, result = excluded.result
