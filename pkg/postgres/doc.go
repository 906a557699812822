// Package postgres is the way to the database: the pool and its session
// settings, waiting for a database that is still starting, and the one table
// from SQLSTATE to error code.
//
// It promises that every error it hands up carries a queue.Code, judged by
// SQLSTATE and never by text; that the hot statements keep the plan they were
// written for, whatever the statistics say (planSettings), and mean what they were
// written for, whatever the database is set to (OwnSettings); and that a
// lost connection is reported on Pool.Lost, because work done just before a
// crash of the database may need healing.
//
// Importable by every room above floor 1.
package postgres
