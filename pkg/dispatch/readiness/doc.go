// Package readiness tracks which targets may have something poppable. It does two things for a
// waiter, which is an intent (package dispatch) or a SQL session that waits in
// belfry.await (package sqlwait).
//
//   - A ticket wakes the waiter: when a partition becomes ready, when an instant comes at which
//     something is due, when a queue or partition is created, or at a resync.
//   - A known-empty entry saves the waiter a query: the last probe of the target found nothing, and
//     nothing was announced since.
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
// The ticket of an intent is exclusive. For each partition that becomes ready, one intent
// wakes, the earliest deadline first. Intents that name the partition come before intents that take any
// partition. A creation wakes one intent for each name that it may have made (Created). SQL waiters
// have shared tickets and wake each time, because nobody knows whether their sessions pop.
//
// # Known empty
//
// A probe calls Observe before its query and SetEmpty after it. An announcement in between removes
// the observation, and then SetEmpty does nothing. So a known-empty entry is never older than the
// last announcement. An entry also ends when something of the target falls due, at a resync, and
// when it is as old as the fallback interval.
//
// An entry remembers which partitions became ready since. A probe that takes messages from all of them
// ends with SetTaken, and the target is known to be empty again without another probe. A partition that
// becomes ready later does not end an entry: the target is known to be empty until then.
//
// A probe of a paused queue or group ends with SetPaused. Such an entry also holds back announcements,
// because a push cannot make anything poppable. The resume causes a resync.
//
// Announcements of other instances arrive only while the listener is proven. The caller checks that
// before it relies on KnownEmpty.
//
// # Notifications
//
// Every role of the database can send notifications, also for partitions that have nothing. Each costs a
// probe. So notifications wake at once only while few of them were spurious (Notified). After 500 spurious
// wakes at once, or 500 a second, all notifications of 2 ms wake together. What this instance commits
// itself always wakes at once.
//
// The package is pure memory and never blocks, except in WaitUntil.
package readiness
