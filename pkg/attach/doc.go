// Package attach turns the changes of existing tables into messages. Programs that write
// to an attached table stay as they are: triggers write one message to the inbox for each
// inserted, updated or deleted row, in the writer's own transaction. The package calls
// the SQL functions belfry.attach, belfry.detach and belfry.attachments, which do all of
// the work.
//
// # What is created
//
// Attaching creates two kinds of objects beside the table, owned by the table's owner:
// one statement-level trigger for each event (Postgres allows only one event for a
// trigger with transition tables), and the function it runs. The functions have the
// rights of the owner, whatever role writes to the table. Therefore the owner must be a
// producer (belfry_producer), and the writers need no rights on Belfry. SQL returns
// exactly the statements that Attach runs.
//
// A partitioned table attached for inserts or updates gets one more trigger, and so does
// each of its partitions: BEFORE INSERT FOR EACH ROW WHEN (false), which never runs its
// function. It works around Postgres 14 to 18, which otherwise fill transition tables
// with rows as they were before they were stored. Without it:
//
//   - Inserted rows lack their generated columns in partitions whose row layout differs
//     from the table's (after a dropped column, for example).
//   - In a MERGE, the row inserted last replaces each row updated after it.
//
// The trigger costs 5 % of an INSERT. A COPY into a partition by name stores row by row
// and takes twice as long. The role that attaches needs the right TRIGGER on partitions
// of other owners. Every role may execute the function of this trigger, because the role
// that creates a partition creates the trigger as well.
//
// # The message
//
// The payload is {"op": "insert", "table": "public.orders", "row": {…}}. row is the row
// after the statement; for a delete, the deleted row. With the payload "changes", an
// update has "old" as well: the earlier values of the changed columns. An update that
// changes no column then sends no message. Columns restricts both row and old.
//
// The n-th old row of a statement belongs to its n-th new row. A BEFORE INSERT trigger
// that returns NULL for a row on its way to another partition breaks this pairing. Such
// a row has no message. For the other rows of that statement, "old" is null, and a
// condition that depends on an old row counts as true.
//
// The partition of a message is the text of the key columns, joined by slashes, so the
// changes of one key stay in order. NULL is left out. Without a key, every message is in
// the partition Default, in commit order as the sequencer sees it. Dates, times, floats
// and bytea have the same text in every session: ISO, in UTC, with bytea_output = hex. A
// name longer than 255 bytes is replaced by its hash. An update that changes the key
// goes to the partition of the new key.
//
// Virtual generated columns (Postgres 18) are NULL in transition tables. A statement
// built at run time computes them for the message, with the types and collations of
// their columns. These limits apply:
//
//   - tableoid is NULL in their expressions when the table has partitions or children.
//   - A table that gets its first virtual column later must be attached again.
//   - A value too long for its varchar(n) is cut, where a SELECT of the column fails.
//   - A transaction above READ COMMITTED that began before an ALTER TABLE of another
//     session has failed messages, or messages without the new columns.
//
// The condition is a boolean expression over old and new. All of old is NULL in an
// insert, and all of new in a delete. Attaching checks types and names and evaluates
// nothing.
//
// # Which changes become messages
//
// Every statement that names the table: any number of rows, COPY, MERGE, INSERT ON
// CONFLICT (as its inserts and updates), changes through views, cascading foreign keys.
// For a partitioned table, also changes of all its partitions, including rows that move
// between them. The exceptions:
//
//   - TRUNCATE.
//   - Statements that name a partition instead of the partitioned table. Attach the
//     partition too; this causes no duplicates.
//   - Changes that logical replication applies.
//   - Sessions without triggers (session_replication_role, ALTER TABLE DISABLE TRIGGER).
//   - A MERGE that moves a row to another partition. Postgres deletes and inserts the
//     row, but fires only the triggers of the actions in the MERGE. With DELETE and
//     INSERT among the actions, the row has a delete and an insert message. Without
//     INSERT, it has a delete message (if there is DELETE) or none. An action that never
//     applies helps: WHEN NOT MATCHED AND false THEN INSERT DEFAULT VALUES.
//
// The messages of a statement are written when it ends, after the AFTER triggers for its
// rows. If such a trigger changes the row again by its own statement, that change is
// written first. A BEFORE trigger that changes NEW has no such effect.
//
// # Failures
//
// A message that cannot be written never fails the statement, unless the attachment is
// strict. All messages of the statement are dropped. The session and the server's log get
// a warning, and belfry.attachment_failure gets a row, about one a second at most. List
// counts these rows; the latest 100 of each attachment are kept. A cancelled statement
// and a statement timeout still end the statement.
//
// These cases fail a message:
//
//   - The expression of a virtual column fails for a row (a division by zero), even if
//     the message does not contain the column.
//   - The key, the columns or the condition name a column that was renamed or dropped.
//     Attach the table again. Until then, no statement on a strict attachment succeeds.
//
// These cases fail the writer's statement:
//
//   - The statement reaches a foreign table through an attached one. Postgres refuses it:
//     "cannot collect transition tuples from child foreign tables". A table with foreign
//     partitions or children cannot be attached. Detach a table before it gets one.
//   - PREPARE TRANSACTION after a change of an attached table, unless belfry.notify is
//     off in that transaction (see pkg/inbox).
//
// # Visibility
//
// List and belfry.attachments show attachments with their conditions and errors to the
// owner of the table, to the members of that role, and to an admin. An admin is any role
// that may change belfry.attachment: belfry_admin, role_grants('admin', …), the owner of
// the schema. Only an admin sees the records of a dropped table; the next attach or detach
// of any table deletes them. Triggers can exist without a record (after restoring a dump
// without the schema of Belfry). Detach finds them by their names and their functions.
//
// # Side effects
//
// lastval() after a change of an attached table returns the id of the inbox row, or fails
// for a role that may not read the inbox sequence. Programs that use lastval() for the
// inserted id (PDO's lastInsertId() without a name does) must name their sequence or use
// RETURNING.
//
// Unless the attachment is strict, each statement has its own subtransaction. An open
// transaction with more than 64 subtransactions makes snapshots of all sessions slower,
// so make bulk changes in few statements.
//
// Attaching waits for the transactions that write to the table. Detaching, or attaching
// again, waits for the transactions that read it. Later transactions on the table queue
// up meanwhile; set lock_timeout first where transactions are long. Attaching a
// partitioned table also locks its partitions, after the table. It waits for writers that
// name a partition. If such a writer then writes to the table, one of the two
// transactions fails with a deadlock.
//
// The condition, and with it the expressions of virtual columns, are evaluated with the
// schema of the table in the search path and with the rights of the table's owner. A
// role that may create objects in that schema can change their meaning.
//
// Importable from floor 3 upwards.
package attach
