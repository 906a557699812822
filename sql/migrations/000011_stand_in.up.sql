-- Stands in for the migration of this number.
SELECT 1;
