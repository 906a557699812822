-- Reads the source of stream $1 (uid).
SELECT s.source FROM belfry.stream s WHERE s.uid = $1::uuid
