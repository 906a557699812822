-- Switches that apply to all servers. A switch without a row is off. The HTTP API writes a row and
-- notifies the channel belfry_settings.
CREATE TABLE belfry.setting (
    name       text PRIMARY KEY CHECK (name IN ('push_maintenance', 'pop_maintenance')),
    enabled    boolean NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
