-- Attaches a table to a queue; see belfry.attach. $1 table in SQL syntax, $2 queue, $3 events, $4 key,
-- $5 condition or NULL, $6 payload, $7 columns or NULL, $8 strict, $9 headers or
-- NULL.
SELECT belfry.attach($1::text::regclass, $2::text, $3::text[], $4::text[], $5::text, $6::text, $7::text[], $8::boolean, $9::text)
