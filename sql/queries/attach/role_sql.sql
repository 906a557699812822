-- The statements that make the roles of migration 000016 and give them rights.
SELECT r.statement FROM belfry.role_sql() AS r(statement)
