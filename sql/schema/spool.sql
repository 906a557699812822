-- The sizes of the spools of all servers: pushes kept on disk (pkg/engine/spool). A server writes its
-- row after a change, at most once a second, and deletes the row when its spool is empty. The row of a
-- stopped server says what is left on its disk.
CREATE TABLE belfry.spool (
    id         uuid PRIMARY KEY,
    host       text NOT NULL,
    messages   bigint NOT NULL,
    rejected   bigint NOT NULL,
    bytes      bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
