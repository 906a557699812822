-- Stands in for a migration that another branch brings.
SELECT 1;
