-- Switches setting $1 on or off ($2) and notifies the servers.
WITH changed AS (
    INSERT INTO belfry.setting AS s (name, enabled) VALUES ($1::text, $2::boolean)
    ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled, changed_at = excluded.changed_at
)
SELECT pg_notify('belfry_settings', '')::text
