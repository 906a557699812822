-- Releases job $1 if holder $2 still has it.
UPDATE belfry.sweep s
   SET held_until = NULL
 WHERE s.job = $1::text AND s.holder = $2::uuid
