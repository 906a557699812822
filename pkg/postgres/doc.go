// Package postgres is the way to the database: the pool and its session
// settings, waiting for a database that is still starting, and the one table
// from SQLSTATE to error code.
//
// It promises that every error it hands up carries a queue.Code, judged by
// SQLSTATE and never by text; that the hot statements keep the plan they were
// written for, whatever the statistics say (planSettings), and mean what they were
// written for, whatever the database is set to (ownSettings); and that a
// lost connection is reported on Pool.Lost, because work done just before a
// crash of the database may need healing.
//
// Through a pooler in transaction mode (PgBouncer's pool_mode) a session is not ours
// to set: what is set stays behind and meets other programs. Such a pooler is
// recognised before anything is set (TransactionPooled), and then statements are
// sent without being prepared and settings are looked at, not made. That costs speed:
// with both cores full `belfry bench end-to-end --duration 8s` had 9,656 messages/s,
// 14,604 through a pool in session mode and 16,046 without one. Nor do
// statement_timeout and idle_in_transaction_session_timeout hold there: the role may
// have them. Migrations, of which the check is the first thing an instance does, fail
// with ErrTransactionPooled: to go on without the locks of the sequencer, as
// dispatch.md would have it, is worse than not to start.
//
// Importable by every room above floor 1.
package postgres
