// Package listen sends hints between the instances of Belfry that share a database. A hint says that a group has something in a
// partition. The package has the one LISTEN connection of a process, which tests itself, and the sender of notifications to other
// instances.
//
// A notification is a hint and the tables are the truth. So the package does not promise that every
// hint arrives. It reports when a hint may be missing:
//
//   - The Listener is "proven" only while it hears its own canary, a notification that it sends to itself through Postgres.
//     Within the canary interval and timeout it notices that its connection is cut or frozen, or that a pooler swallows
//     notifications.
//   - The Listener calls OnResync whenever a hint may be missing. Hints may be missing when LISTEN takes effect, before the
//     first message, and when the proof is lost. Hints may also be missing when another instance falls silent without a goodbye,
//     because it may have died between a commit and the hint.
//   - Every role of the database can send notifications, also unreadable and forged ones. A notification in the name of an
//     instance without a proof (see below) counts as unreadable. The rate of OnCreated and OnLook is limited. Silent peers cause
//     at most one OnResync a second. Package readiness limits the rate of wakes by OnReady, because it knows whether a wake found
//     a message. The Listener knows at most 1,024 peers.
//   - The Sender never blocks its callers. It coalesces entries into at most one notifying commit per notify_interval, because
//     Postgres runs such commits one at a time in the whole cluster. The statement that sends an entry starts after the call
//     that queued the entry. If the statement fails, the Sender sends the entry again.
//   - Nothing hangs. A connection that does not answer within its time limit is cut. No connection and no goroutine outlives the
//     Run that started it.
//
// # What is sent
//
// If a partition becomes ready for several groups, the Sender sends one entry with the queue, and not one entry for each group.
// Each instance finds out which of its groups read the queue. An older version that does not know such entries looks at the
// tables instead, at the rate of OnLook.
//
// An instance is alone when its listener is proven and has heard no other instance for peer_timeout. Then
// the Sender withholds the hints and sends only canaries. This loses nothing:
//
//  1. A starting instance calls OnResync when LISTEN takes effect. So it sees each commit before that instant.
//  2. Then it sends its first canary. The instance that was alone hears the canary, and withholds no further hints.
//  3. If the instance that was alone has withheld hints, it then sends a resync. The commits of the withheld hints came before
//     the resync, so the starting instance sees them when it looks.
//  4. The Sender sends the same resync when it stops. It also sends the resync when the proof is lost, because the listener
//     cannot hear other instances then.
//
// The lock of the Sender orders steps 2 and 3: a hint is either withheld before the resync is queued, or sent. After the goodbye
// of another instance, peer_timeout must pass again before an instance is alone, because a third instance may be starting.
//
// # Proof
//
// Every role of the database can notify and listen. Roles that may read every table know the key in belfry.channel_key.
//
//   - A payload of an instance on Channel has a number and a tag, a keyed hash. Its hints are only ids, and are not encrypted.
//   - A payload on LiveChannel is encrypted with AES-GCM, with the instance and a number.
//   - The Listener accepts each number of an instance only once, so a repeated payload has no effect. It remembers the numbers of
//     the latest instances.
//   - belfry.await encrypts the names with a keyed hash of a counter. The tag of the payload covers the session, so another
//     session cannot send the payload again.
//   - SQL sessions send hints without a proof, with ids only.
//
// The Listener reads the key when it connects. The Sender reads the key with every flush.
//
// Listener and Sender each have a connection that belongs to no pool. They open no transactions. Encode describes the text of a
// notification.
//
// Only this package imports pgxlisten.
package listen
