-- Deletes stream $1 (uid) with its state.
DELETE FROM belfry.stream s WHERE s.uid = $1::uuid
