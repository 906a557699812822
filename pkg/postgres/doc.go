// Package postgres connects to the database. It holds the pool and its session settings, waits for
// a database that is starting, and maps SQLSTATEs to error codes.
//
// It promises:
//
//   - Every error from Wrap carries a queue.Code, chosen by SQLSTATE and never by text.
//   - The hot statements keep their plans, whatever the statistics say (planSettings).
//   - The settings of the database, the role or the server do not change what a statement means
//     (sessionSettings).
//   - Pool.Losses signals a lost connection, because work done just before a crash of the database
//     may need healing.
//
// Through a pooler in transaction mode (PgBouncer's pool_mode) a session is shared: a setting or a
// prepared statement would stay behind and affect other programs. The pool detects such a pooler
// before it sets anything (TransactionPooled). Then it prepares no statements, and it checks the
// settings instead of making them. So:
//
//  1. It costs speed. With both cores full, `belfry bench end-to-end --duration 8s` measured 9,656
//     messages/s through such a pooler, 14,604 through a pooler in session mode and 16,046 without
//     a pooler.
//  2. statement_timeout and idle_in_transaction_session_timeout are not set. The role may set them.
//  3. Migrations fail with ErrTransactionPooled, and every instance checks them first at start.
//     Running without the session locks of the sequencer would be worse.
package postgres
