// Package dispatch answers pops, and holds the pops with wait=true that find nothing. Such a request, an
// intent, waits until there is something for it, its time is up, its client leaves, the rights of its sender
// end (they expire or are revoked), or the server stops. While it waits it costs the database nothing.
//
// # The loop of an intent
//
// An intent resolves its names to a target: a group, or one partition for a group. Then it runs the
// loop of package readiness: take a ticket, probe unless the target is known to be empty, wait. It
// waits for the ticket, a handoff, the fallback timer, the deadline, its client's leaving, or the
// stop of the server. wait.go is the loop, probe.go the probe.
//
// # The registry
//
// Intents is the registry. Its lock guards what an intent does: it sleeps, a push claims for it, or its wait
// has ended. It guards the counts that decide which intents may wait (type admission), and which intents wait
// for which target of which queue. It has no order. Package notify has the tickets and so the order, and
// decides who is first, for a handoff as for a wake.
//
// The two are not one, because neither has the other's entries. An intent is registered for its whole wait,
// by caller, group and target. A ticket lives from one probe to the next, has several keys, and each key has
// an instant. SQL waiters have tickets but are no intents. And an announcement of a group for which nobody
// waits takes the lock of the notifier for one look into a map. The locks are taken in the order Intents,
// readiness.Tracker, notify.Notifier.
//
// # Rounds
//
// The first probe of an intent is a pop of its own, with one round trip. A probe after a wake goes
// through a round. All intents that arrive during a round share the next one. A round has three
// steps:
//
//  1. one read-only preflight query for all targets of its intents,
//  2. a pure plan (package plan) that decides which intent gets which partition,
//  3. one round trip of claims, each with its own lease.
//
// If a resync wakes 1,000 intents, and one message is there, there are one preflight and one claim. The
// round learns that nothing else is due, and that answers the other 999. If a round has one intent, and
// it was woken for one partition or no second intent waits for its target, the claim is also the probe
// and there is no preflight.
//
// dispatch.poll_workers workers make the rounds. A group always has the same worker, so two rounds
// never plan the same group at a time.
//
// # Handoff
//
// A push to one partition makes the claim for an intent that waits for it, as the last statements of its
// own round trip (Intents.Handoffs). Of each group, the intent with the earliest deadline gets it. What
// the push announces then is what is ready after the claim: the partition when its lease ends, and
// nothing if it was consumed. The target is known to be empty again, so the next intent of the client
// waits without a query.
//
// # What wakes an intent
//
//	a push to one partition                     its handoff, one intent of each group
//	a push, a transaction, a sequencer commit   events.OnReady after the commit
//	ack, nack, release, extend                  events.OnReady with what became ready
//	a lease expires, a delay or window ends     the timer: each probe sets it to the next due instant
//	a queue or partition is created             events.OnCreated
//	the same on another instance                the same events, from its notification
//	a queue is deleted or configured            events.OnResync
//	the listener connects, a peer falls silent  events.OnResync
//	a database connection breaks                events.OnResync
//	the database has a new epoch                events.OnResync
//	none of these                               the fallback timer
//
// Events with partitions and the timer wake one intent for each partition (notify.Exclusive). A creation wakes
// one intent for each name that it may have made, or for each set of tags. That intent resolves the name,
// and the others wait for its target from then on. A resync wakes all intents, and each round then
// costs one query. An event is a hint and the tables are the truth. The clock of the database decides when
// something is due. Local clocks only measure waits.
//
// # Who forwards a wake
//
// An intent that was woken alone holds the wake. It uses the wake or forwards it. The wake is used:
//
//   - by a probe that finds nothing: what was announced is no longer due;
//   - by a delivery from the partition of the wake. If that leaves messages or a lease, the delivery announces
//     when the partition is due again, for the intents that were not woken;
//   - by a delivery of a round. The round wakes an intent for each due partition that it saw and left.
//
// A wake by the timer has no partition: it is for all that is due at that instant. A wake by a creation has
// none either: it is for all that is due now.
//
// In every other case the intent forwards the wake when it ends: its client left, its time is up, it
// has something else, or it panicked. After an error of the database the next intent waits for
// dispatch.poll_interval, and for a second if the intent itself may be the reason.
//
// So a partition that is due and an intent that could take it do not both wait. This does not depend on
// who wakes first: an intent that finds another one's partition forwards its own wake.
//
// While the listener is proven, the fallback timer is the last safety net, after
// dispatch.fallback_interval. While it is not proven, all intents of a group share a backoff from
// dispatch.poll_interval to dispatch.max_poll_interval. A wake or a delivery resets it.
//
// # Promises
//
//   - At most dispatch.max_intentions intents wait. When as many wait, a caller or a group below its share
//     displaces an intent of another one above its share (type admission), so one of them cannot
//     keep the others out. Every other intent gets CodeOverloaded after about a second.
//   - An intent is answered a little before its timeout, so a client with the same limit does not
//     close the connection during the delivery.
//   - A client that left gets no lease. If it leaves during its claim, the lease is released at once.
//   - After the end of its rights an intent gets nothing. The store gives back what was claimed for it.
//   - While the listener is proven, an intent for a target that is known to be empty waits without a
//     query. So clients that poll again every few seconds cost nothing. wait=false always probes.
//
// The package declares the Store it needs.
package dispatch
