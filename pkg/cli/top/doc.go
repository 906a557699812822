// Package top shows the activity of a server on one screen of a terminal: its instances, and the queues with their
// rates, waiting requests, lag and dead letters.
//
// The figures come from the event stream of the server. Only the columns PENDING and DEAD are read from the database,
// at the start and when the user asks. So an open screen sends no query to the database while no event arrives.
//
// The package imports only pkg/client and pkg/cli/output.
package top
