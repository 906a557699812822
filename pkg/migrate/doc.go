// Package migrate brings the schema belfry to the version this binary was built
// for, and back. The versions are the files of sql/migrations, read and ordered
// by golang-migrate; the connection underneath is our own, because that
// library's Postgres driver waits for its lock without end and cannot be
// stopped.
//
// It promises:
//
//   - One at a time. A run holds an advisory lock of the database. Others that
//     start meanwhile wait for it, find the work done and succeed. The lock and
//     the work share one connection: whoever loses the lock has also stopped.
//   - All or nothing. A migration and the record of its version commit together.
//     Whatever goes wrong, the schema is at the version before or at the version
//     after. A migration therefore cannot contain BEGIN, COMMIT or CREATE INDEX
//     CONCURRENTLY.
//   - Dirty means failed, not half done. The record is marked dirty when a
//     migration starts and clean when it commits. A statement that fails leaves
//     the mark, so that a person looks at it before it is tried again. A
//     migration that merely could not get a lock, or was stopped, takes the mark
//     away again: running it once more is all it takes.
//   - Traffic goes on. A statement that waits for a table lock makes every later
//     user of that table wait behind it, so it gives up after
//     Config.StatementLockTimeout.
//
// The record is the table belfry.schema_migrations in golang-migrate's layout,
// plus the column previous: the version to go back to while dirty is set.
//
// The baseline migration creates the function belfry.baseline. A schema that has
// a version and lacks this function was made by an unreleased version of Belfry,
// whatever its version is. Every method refuses such a schema (UnreleasedError).
//
// Importable by the floors above 2, and by test/pgtest.
package migrate
