-- Lists the settings that are on.
SELECT s.name FROM belfry.setting s WHERE s.enabled ORDER BY s.name
