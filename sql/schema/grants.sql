-- The grants in force. A role sees its own grants, and the grants of each role whose rights it has. An
-- admin sees all grants. An admin is a role that may update belfry.queue_grant. kind is push or consume.
CREATE VIEW belfry.grants WITH (security_barrier) AS
SELECT pg_catalog.pg_get_userbyid(g.grantee) AS role, g.kind, g.queue, CASE WHEN g.kind = 'consume' THEN g.consumer_group END AS consumer_group,
       g.granted_by, g.granted_at, g.grantee::oid AS role_id
  FROM belfry.queue_grant g
 WHERE g.revoked_at IS NULL
   AND (pg_catalog.pg_has_role(g.grantee, 'USAGE') OR pg_catalog.has_table_privilege('belfry.queue_grant', 'UPDATE'));
