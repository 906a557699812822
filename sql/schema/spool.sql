-- What the spools of servers hold (pkg/engine/spool). A server writes its row after a change, at most once a
-- second, and removes it when its spool is empty. The row of a server that is not running says what
-- its disk still has.
CREATE TABLE belfry.spool (
    id         uuid PRIMARY KEY,
    host       text NOT NULL,
    messages   bigint NOT NULL,
    rejected   bigint NOT NULL,
    bytes      bigint NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
