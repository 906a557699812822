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
//   - Every role of the database can send notifications, also unreadable and forged ones. A notification of
//     an instance without a proof (see below) counts as unreadable. OnCreated and OnLook have a pace, and
//     silent peers cause at most one OnResync a second. OnReady has no pace here: package readiness has one,
//     because it knows whether a wake found a message. At most 1,024 peers are known.
//   - The Sender never blocks its callers. It coalesces entries into at most one notifying commit
//     per notify_interval, because Postgres runs such commits one at a time in the whole cluster.
//     Each entry is sent by a statement that starts after the call that queued it. If the statement
//     fails, the entry is sent again.
//   - Nothing hangs. Each connection has a time limit and is then cut. No connection and no
//     goroutine outlives the Run that started it.
//
// # What is sent
//
// A partition that becomes ready for several groups is one entry with its queue, however many groups
// there are. Each instance works out which of its own groups that concerns. An instance of a version
// without such entries does not understand them. Then it looks at the tables, at the pace of OnLook.
//
// An instance is alone when its listener is proven and has heard no other instance for peer_timeout. Then
// the Sender withholds the hints and sends only canaries. This loses nothing:
//
//  1. An instance that starts calls OnResync once LISTEN is in force. So it sees each commit before that.
//  2. After that it sends its first canary. The instance that was alone hears it, and withholds nothing
//     more.
//  3. If it withheld anything, it then sends a resync. The commits behind the withheld hints came before,
//     so the look of the other instance sees them.
//  4. The same resync follows when the proof is lost, because then other instances are not heard, and when
//     the Sender stops.
//
// The lock of the Sender orders 2 and 3: a hint is withheld before the resync is queued, or it is sent.
// After a goodbye, an instance waits for peer_timeout again before it is alone: another one may just be starting.
//
// # Proof
//
// Every role of the database can notify and listen. Roles that may read every table know the key in belfry.channel_key.
//
//   - A payload of an instance on Channel has a number and a tag, a keyed hash. Its hints are ids, and not encrypted.
//   - A payload on LiveChannel is encrypted with AES-GCM, with the instance and a number.
//   - No number of an instance counts twice, so a payload that is sent again does not count. The numbers of the
//     latest instances are remembered.
//   - belfry.await encrypts the names by a keyed hash of a counter. Its tag covers the session, so another session
//     cannot send the payload again.
//   - SQL sessions send hints without a proof, with ids only.
//
// The Listener reads the key when it connects, and the Sender with every flush.
//
// Listener and Sender have connections of their own, never of a pool, and open no transactions.
// Encode describes the text of a notification.
//
// Only this package knows pgxlisten.
package listen
