// Package migrate brings the schema belfry to the version this binary was built for, and back to earlier versions. The versions
// are the files of sql/migrations. golang-migrate reads and orders them. This package has its own driver, because the Postgres
// driver of golang-migrate waits for its lock forever and cannot be stopped.
//
// It promises:
//
//   - Only one run at a time. A run holds an advisory lock of the database. Other instances wait for the lock, find nothing to
//     do and succeed. The lock and the migrations use one connection, so a run that loses its lock has ended.
//   - A current schema needs no lock. Each role that may connect can take the lock, also before the schema exists. So Up takes
//     the lock only if there is something to migrate, and then checks the schema again. A holder of the lock that may not
//     migrate is called a stranger in errors.
//   - All or nothing. A migration and the record of its version commit together.
//     After any failure the schema is at the version before or at the version
//     after. So a migration cannot contain BEGIN, COMMIT or CREATE INDEX
//     CONCURRENTLY.
//   - Dirty means failed, not half done. The record is marked dirty when a migration starts and clean when it commits. After a
//     failed statement the mark stays, so that an operator examines the failure before the next try. A migration that got no
//     lock, or was cancelled, removes the mark and can be run again.
//   - Requests continue during a migration. While a statement waits for a table lock, later users of the table wait too. So the
//     statement gives up after Config.StatementLockTimeout, and the migration is repeated after a random pause, for
//     Config.LockTimeout at most.
//
// The record is the table belfry.schema_migrations in golang-migrate's layout, with the additional column previous. While dirty
// is set, previous is the version that the schema still has.
//
// The baseline migration creates the function belfry.baseline. The comment of the function is a digest of the text of the
// migration. A schema that has a version and lacks this function or this digest was made by an unreleased version of Belfry.
// Every method refuses such a schema (UnreleasedError).
package migrate
