// Package readiness tracks which targets may have something poppable. It does two things for a
// waiter, which is an intent (package dispatch) or a SQL session that waits in
// belfry.await (package sqlwait).
//
//   - A ticket wakes the waiter: when a partition becomes ready, when an instant comes at which
//     something is due, when a queue or partition is created, or at a resync.
//   - A known-empty entry saves the waiter a query: the last probe of the target found nothing, and nothing was announced since
//     that probe.
//
// # The loop of a waiter
//
//  1. Take a ticket for the target.
//  2. Probe: ask the database whether something is poppable. Skip the probe if KnownEmpty.
//  3. Wait for the ticket, for a fallback timer, or for the end of the wait.
//  4. Start again at 1.
//
// The ticket comes before the probe, so an announcement during the probe is not lost.
//
// The ticket of an intent is exclusive. For each partition that becomes ready, one intent wakes, the earliest deadline first.
// Intents that name the partition come before intents that take any partition. A creation wakes one intent for each name that it
// may have created (Created). SQL waiters have shared tickets and wake each time, because the server does not know whether their
// sessions will pop.
//
// # Known empty
//
// A probe calls Observe before its query and SetEmpty after it. An announcement in between removes the observation, and then
// SetEmpty does nothing. So a known-empty entry is never older than the last announcement. An entry ends when something of the
// target becomes due, at a resync, or when the entry is as old as the fallback interval.
//
// An entry remembers which partitions became ready since the probe. A probe that takes messages from all these partitions ends
// with SetTaken. The target is then known to be empty again without another probe. A partition that becomes ready at a later
// instant ends the entry at that instant and not before.
//
// A probe of a paused queue or group ends with SetPaused. While this entry holds, announcements wake nobody, because a push makes
// nothing poppable. The end of the pause causes a resync.
//
// Announcements of other instances arrive only while the listener is proven. The caller checks this before it relies on
// KnownEmpty.
//
// # Notifications
//
// Every role of the database can send notifications, also for partitions that have nothing. Each notification can cost a probe. A
// wake is spurious if its probe finds nothing. Notifications wake at once only while few wakes were spurious (Notified). After
// 500 spurious wakes at once, or 500 a second, the notifications of each 2 ms wake together. Events of this instance always wake
// at once.
//
// The package uses only memory and never blocks, except in WaitUntil.
package readiness
