// Package attach turns the changes of existing tables into messages. Programs that write
// to an attached table stay as they are: triggers write one message to the inbox for each
// inserted, updated or deleted row, in the writer's own transaction. The package calls
// the SQL functions belfry.attach, belfry.detach and belfry.attachments, which do all of
// the work. "Attach a table" in docs/sql.md describes the message, the changes that become
// messages, failures, limits and side effects.
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
// The trigger costs 5 % of an INSERT. The role that attaches needs the right TRIGGER on
// partitions of other owners. Every role may execute the function of this trigger,
// because the role that creates a partition creates the trigger as well.
//
// # Pairs of old and new rows
//
// The n-th old row of a statement belongs to its n-th new row. A BEFORE INSERT trigger
// that returns NULL for a row on its way to another partition breaks this pairing. Such
// a row has no message. For the other rows of that statement, "old" is null, and a
// condition that depends on an old row counts as true.
//
// # Virtual generated columns
//
// Virtual generated columns (Postgres 18) are NULL in transition tables. A statement
// built at run time computes them for the message, with the types and collations of
// their columns. If the expression of a column fails for a row (a division by zero), the
// message fails, even if it does not contain the column.
//
// # Triggers without a record
//
// After restoring a dump without the schema of Belfry, triggers can exist without a row in
// belfry.attachment. Detach finds them by their names and their functions.
package attach
