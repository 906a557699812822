// Package attach makes changes of existing tables messages: for whoever writes to
// an attached table, in whatever way, nothing changes, and each row that was
// inserted, updated or deleted goes to the inbox in the writer's own transaction.
// It speaks for the SQL functions belfry.attach and belfry.detach (migration
// 000014), which do all of it, and may be imported by the floors above 2.
//
// # What is made
//
// One statement-level trigger for each event, since Postgres gives a trigger with
// transition tables one event only, and the function it runs, beside the table and
// owned by the table's owner. They work with that owner's rights, whoever writes
// to the table, so the owner must be a producer (belfry_producer) and the writers
// need nothing. What is printed by SQL is what Attach runs.
//
// A partitioned table whose inserts or updates are told has one more, since migration
// 000032, and each of its partitions from it: BEFORE INSERT FOR EACH ROW WHEN (false). It
// never runs. Without it, Postgres 14 to 18 fill the transition tables with rows as they
// were before they were stored: what is inserted lacks its generated columns in
// partitions that store rows in another way than the table (a column was dropped from one
// of them, say), and in a MERGE the row inserted last stands for each one updated after
// it. Its price is a twentieth of an INSERT, and that a COPY into a partition by name
// stores row by row, which takes twice as long. Whoever attaches needs the right TRIGGER
// on partitions that belong to others. Since migration 000034 it has a function of its own that
// everybody may run, since whoever makes a partition makes its trigger as well; before,
// an owner who had come after the one who attached the table could make none.
//
// # What a message holds
//
// The payload is {"op": "insert", "table": "public.orders", "row": {…}}. row is
// the row after the statement, for a delete the one that is gone. The payload
// "changes" adds "old" to an update: the values before of those columns that
// changed; an update that changes nothing then sends nothing. Columns narrow both.
// What a row was before is known by its place among the rows of the statement. A row
// that a BEFORE INSERT trigger swallows (it returns NULL) on its way to another partition has
// no place among the new ones, and no message. Then no row of that statement
// is said to be what another one was: "old" is null, and a condition that an old row
// would decide is taken to hold. So it is for tables attached since migration 000019.
//
// Tables attached before migration 000019 from which a column was dropped, then or
// before, are to be attached anew if they have a condition or tell changes: the columns
// behind the dropped one are read from the wrong places in updates. Migration 000025
// mends those attached since, where its role may change the functions of their owners.
//
// Its partition is the text of the key's columns, joined by slashes, so changes of
// one key stay in order; without a key everything is in the partition Default, in
// the order of the commits as the sequencer sees them. What is NULL is left out, and
// dates, times, floats and bytea have the same text in every session: ISO, in UTC, as
// bytea_output = hex writes them (since migration 000025). A name longer than 255 bytes
// is its hash. An update that changes the key belongs to the new one.
//
// Virtual generated columns (Postgres 18) are NULL in transition tables. Since migration
// 000032 they are computed for the message, by a statement that is put together each
// time; since 000034 they have the types and collations of their columns. tableoid is
// NULL in them where there are tables below this one. A table that gets its first one
// later is to be attached anew. A value that is too long for its varchar(n) is cut where a
// SELECT of the column fails. Beside such columns, a transaction above READ COMMITTED
// that began before somebody's ALTER TABLE has failed messages, or lacks new columns.
//
// The condition is a boolean expression over old and new; where there is no such
// row (old in an insert, new in a delete) all of it is NULL. Attaching checks its types
// and names and runs nothing of it.
//
// # What it sees
//
// Every statement that names the table: any number of rows, COPY, MERGE, INSERT ON
// CONFLICT (as the inserts and updates it makes), changes through views and foreign
// keys that cascade, and for a partitioned table changes of all its partitions, rows
// that move between them included. It does not see TRUNCATE; statements that name a
// partition instead of the partitioned table (attach the partition too: there are no
// doubles); what a logical replication applies; and sessions that turned triggers off
// (session_replication_role, ALTER TABLE DISABLE TRIGGER).
//
// A MERGE that moves a row to another partition is the exception. To Postgres the row is
// deleted and inserted, but what it fires are the triggers of the actions that the MERGE
// has. So the row is told as deleted and then as inserted where it has both; where it has
// no INSERT, as deleted (if it has DELETE) or not at all. An action that never applies,
// WHEN NOT MATCHED AND false THEN INSERT DEFAULT VALUES, makes it told.
//
// What a statement changed is told when it ends, after the AFTER triggers for each of
// its rows. When one of those changes the row once more, by a statement of its own, that is
// told first, and the row as it was before last. A BEFORE trigger that changes NEW has no such
// effect.
//
// # What goes wrong
//
// A message that cannot be written never fails the statement, unless the
// attachment is strict: the statement's messages are dropped together, with a
// warning to the session and the server's log, and a row in
// belfry.attachment_failure, about one a second, which List counts. The latest 100 of
// each attachment are kept. Only that a statement is cancelled, or its time is up, ends
// it as before.
//
// Postgres itself fails a statement that reaches a foreign table through an attached one
// ("cannot collect transition tuples from child foreign tables"). A table with foreign
// partitions or children cannot be attached; detach it before it gets one.
//
// A transaction that changed an attached table cannot be prepared (PREPARE
// TRANSACTION) unless it has set belfry.notify to off: see pkg/inbox.
//
// The expression of a virtual column that fails for one row (a division by zero) is such a
// message, whether or not it would hold that column.
//
// What names a column that is renamed or dropped, in the key, the columns or the
// condition, is such a message until the table is attached anew; with strict, no
// statement succeeds until then.
//
// # Who sees it
//
// What is attached, its condition and its errors are shown (List, belfry.attachments)
// to the owner of the table and the members of that role, and to an admin: whoever may
// change belfry.attachment, as belfry_admin, role_grants('admin', …) and the owner of the
// schema may. What is noted of a table that is gone is shown to an admin alone, until
// anybody attaches or detaches another one. Nothing may be noted of triggers that are
// there (a dump without the schema of Belfry was restored): Detach finds them, by their
// names and by what their functions are.
//
// # What else changes
//
// lastval() after such a statement is that of the inbox, and refuses whoever may not
// read its sequence. Programs that ask it for the id they inserted (PDO's
// lastInsertId() without a name does) must name their sequence, or use RETURNING.
//
// Unless strict, each statement has a subtransaction of its own. A transaction with
// more than 64 of them makes snapshots dearer for everybody while it is open: bulk
// changes are best made in few statements.
//
// Attaching takes a lock that waits for whoever is writing to the table, and
// detaching, or attaching anew, for whoever is reading it; meanwhile those who come
// later wait behind it. Where transactions are long, set lock_timeout before. With the
// trigger for each row it locks all partitions as well, after the table: it waits for
// those who write to one of them by name, and when one of these then goes on to the
// table, one of the two fails as a deadlock.
//
// The condition is read with the schema of the table in the path, and with the
// rights of its owner; so are, beside a condition, the expressions of virtual columns.
// Whoever may make things in that schema can change what they mean.
package attach
