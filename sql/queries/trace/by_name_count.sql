-- Counts the traces named $1.
SELECT count(*) AS n
  FROM belfry.trace_name n
 WHERE n.name = $1::text
