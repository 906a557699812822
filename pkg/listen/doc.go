// Package listen sends hints between the instances of Belfry that share a database: "this group has
// something in that partition". It holds the one LISTEN connection of a process, which tests
// itself, and the sender of notifications to other instances.
//
// A notification is a hint and the tables are the truth. So the package does not promise that every
// hint arrives. It reports when a hint may be missing:
//
//   - The Listener is "proven" only while it hears its own canary, a notification that it sends to
//     itself through Postgres. It notices within the canary interval and timeout if a connection is
//     cut, if it is frozen, and if a pooler swallows notifications.
//   - It calls OnResync whenever a hint may be missing: each time LISTEN takes effect, before the
//     first message; when the proof is lost; and when another instance falls silent without a goodbye.
//     That instance may have died between a commit and its hint.
//   - Every role of the database can send notifications, garbage and forged ones. Garbage is counted.
//     OnCreated and OnLook have a pace, and silent peers cause at most one OnResync a second. OnReady
//     has none: package readiness knows whether it was fruitful. At most 1,024 peers are known.
//   - The Sender never blocks its callers. It coalesces entries into at most one notifying commit
//     per notify_interval, because Postgres runs such commits one at a time in the whole cluster.
//     Each entry is sent by a statement that starts after the call that queued it. If the statement
//     fails, the entry is sent again.
//   - Nothing hangs. Each connection has a time limit and is then cut. No connection and no
//     goroutine outlives the Run that started it.
//
// Listener and Sender have connections of their own, never of a pool, and open no transactions.
// Encode describes the text of a notification.
//
// Only this package knows pgxlisten. It is on floor 2 and importable from floor 3 upwards.
package listen
