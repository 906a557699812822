-- Returns the statements that create the roles of Belfry with their rights.
SELECT r.statement FROM belfry.role_sql() AS r(statement)
