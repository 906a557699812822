-- Statements on attached tables that succeeded although their messages could not be written.
CREATE TABLE belfry.attachment_failure (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target    regclass NOT NULL,
    queue     text NOT NULL,
    event     text NOT NULL,
    code      text NOT NULL,
    message   text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX attachment_failure_latest ON belfry.attachment_failure (target, queue, failed_at);
ALTER TABLE belfry.attachment_failure ENABLE ROW LEVEL SECURITY;
CREATE POLICY attachment_failure_owner ON belfry.attachment_failure USING (belfry.owns_table(target, current_user));
CREATE TRIGGER trim_attachment_failures BEFORE INSERT ON belfry.attachment_failure
    FOR EACH ROW EXECUTE FUNCTION belfry.trim_attachment_failures();
