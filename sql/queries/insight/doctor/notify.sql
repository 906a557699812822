-- Sends the text $2 on the channel $1.
SELECT pg_notify($1::text, $2::text)
