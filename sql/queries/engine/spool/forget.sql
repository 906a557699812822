-- Removes the row of spool $1.
DELETE FROM belfry.spool s WHERE s.id = $1::uuid
