-- Tables whose changes become messages of a queue. Triggers on the tables write the messages. A row
-- holds the arguments of the call of belfry.attach that created the triggers.
CREATE TABLE belfry.attachment (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target      regclass NOT NULL,
    queue       text NOT NULL,
    events      text[] NOT NULL, -- Empty: the attachment is being deleted.
    -- The columns whose values form the partition name; empty: one partition for all rows.
    key         text[] NOT NULL,
    condition   text,
    payload     text NOT NULL, -- row or changes.
    columns     text[], -- The columns in the payload; NULL: all.
    headers     text, -- An object or an expression for the headers; NULL: none.
    strict      boolean NOT NULL, -- If true, a statement fails when its messages cannot be written.
    attached_by name NOT NULL DEFAULT current_user,
    attached_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (target, queue)
);
ALTER TABLE belfry.attachment ENABLE ROW LEVEL SECURITY;
CREATE POLICY attachment_owner ON belfry.attachment USING (belfry.owns_table(target, current_user));
CREATE TRIGGER forget_attachments AFTER UPDATE ON belfry.attachment
    FOR EACH STATEMENT EXECUTE FUNCTION belfry.forget_attachments();
