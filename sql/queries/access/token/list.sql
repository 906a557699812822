-- Lists the revoked tokens, the last revoked token first.
SELECT r.id, nullif(r.expires_at, 'infinity') AS expires_at, r.revoked_by::text AS revoked_by, r.revoked_at
  FROM belfry.revoked_token r
 ORDER BY r.revoked_at DESC, r.id
