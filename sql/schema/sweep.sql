-- A row says which instance runs a sweep job, and when the next run is due. The instance holds it until
-- held_until, and extends held_until during the run. So a frozen or dead instance loses the row.
CREATE TABLE belfry.sweep (
    job        text PRIMARY KEY,
    holder     uuid NOT NULL,
    held_until timestamptz,
    next_at    timestamptz NOT NULL
);
