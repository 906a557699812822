-- A spool keeps pushes on the disk of a server (pkg/engine/spool). A row has the size of one spool. The
-- server writes the row after a change, at most once a second, and deletes it when the spool is empty.
-- The row of a stopped server says what is left on its disk.
CREATE TABLE belfry.spool (
    id         uuid PRIMARY KEY,
    host       text NOT NULL,
    messages   bigint NOT NULL,
    rejected   bigint NOT NULL,
    bytes      bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
