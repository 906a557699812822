-- Switches of all servers. A name without a row is off. The API writes it, with a notification on
-- the channel belfry_settings.
CREATE TABLE belfry.setting (
    name       text PRIMARY KEY CHECK (name IN ('push_maintenance', 'pop_maintenance')),
    enabled    boolean NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
