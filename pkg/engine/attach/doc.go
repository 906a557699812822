// Package attach turns the changes of existing tables into messages. Programs that write to an
// attached table need no change: triggers write one message to the inbox for each inserted, updated
// or deleted row, in the writer's own transaction. The package calls the SQL functions
// belfry.attach, belfry.detach and belfry.attachments, which do all of the work. "Attach a table"
// in docs/sql.md describes the message, the changes that become messages, failures, limits and side
// effects.
//
// # What is created
//
// Attaching creates two kinds of objects, which the owner of the table owns: one statement-level
// trigger for each event, and the function that the trigger runs. (Postgres allows only one event
// for a trigger with transition tables.) The functions run with the rights of the owner, not with
// the rights of the role that writes to the table. Therefore the owner must be a producer
// (belfry_producer), and the writers need no rights on Belfry. SQL returns exactly the statements
// that Attach runs.
//
// A partitioned table that is attached for inserts or updates gets one more trigger, BEFORE INSERT
// FOR EACH ROW WHEN (false). Each of its partitions gets this trigger too. The trigger never runs
// its function. It works around a defect of Postgres 14 to 18: without the trigger, transition
// tables hold rows in a state before they were stored. The consequences of the defect are:
//
//   - Inserted rows lack their generated columns in partitions whose row layout differs
//     from the table's (after a dropped column, for example).
//   - In a MERGE, the last inserted row appears in place of each row that the MERGE updates after
//     it.
//
// The trigger costs 5 % of an INSERT. The role that attaches needs the right TRIGGER on partitions
// of other owners. A role that creates a partition also creates this trigger on it, so every role
// may execute the function of the trigger.
//
// # Pairs of old and new rows
//
// The n-th old row of a statement belongs to its n-th new row. A BEFORE INSERT trigger breaks this
// pairing if it returns NULL for a row that an update moves to another partition. Such a row has no
// message. For the other rows of that statement, "old" is null, and a condition that depends on an
// old row counts as true.
//
// # Virtual generated columns
//
// Virtual generated columns (Postgres 18) are NULL in transition tables. For the message, the
// trigger function computes these columns, with their types and collations, in a statement that it
// builds at run time. If the expression of such a column fails for a row (a division by zero), the
// message of the row fails, even if the message does not contain the column.
//
// # Triggers without a record
//
// After restoring a dump without the schema of Belfry, triggers can exist without a row in
// belfry.attachment. Detach finds such triggers by their names and their functions.
package attach
