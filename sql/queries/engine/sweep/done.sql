-- Releases job $1 if $2 is still its holder.
UPDATE belfry.sweep s
   SET held_until = NULL
 WHERE s.job = $1::text AND s.holder = $2::uuid
