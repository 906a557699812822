-- Detaches a table. $1 table in SQL syntax, $2 queue (NULL: all).
SELECT d.queue FROM belfry.detach($1::text::regclass, $2::text) AS d(queue)
