// Package postgres connects to the database. It holds the pool and its session settings, waits for
// a database that is starting, and maps SQLSTATEs to error codes.
//
// It promises:
//
//   - Every error from Wrap has a queue.Code. If the error has a SQLSTATE, the code does not depend on the text of the error.
//   - The hot statements keep their plans, whatever the statistics say (planSettings).
//   - The settings of the database, the role or the server do not change what a statement means
//     (sessionSettings).
//   - Pool.Losses signals a lost connection. The wakes of work done just before a crash of the database may not have run (see
//     heal in docs/design.md).
//
// Behind a pooler in transaction mode (pool_mode of PgBouncer), several programs share a session. A setting or a prepared
// statement of Belfry would then affect the other programs. The pool detects such a pooler before it sets anything
// (TransactionPooled). Then it prepares no statements, and it only checks the settings. The consequences are:
//
//  1. Such a pooler costs speed. `belfry bench end-to-end --duration 8s` was measured with both cores of a machine full. It had
//     9,656 messages/s through such a pooler, 14,604 through a pooler in session mode, and 16,046 without a pooler.
//  2. statement_timeout and idle_in_transaction_session_timeout are not set. The operator can set them for the role.
//  3. Migrations fail with ErrTransactionPooled. Every instance runs or checks the migrations first, so an instance does not
//     start in this case. If it started, the sequencer would run without its session locks.
package postgres
