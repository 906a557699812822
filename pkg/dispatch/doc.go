// Package dispatch answers pops. A pop with wait=true that finds nothing waits. Such a request is called an intent. An intent
// waits until it gets messages, its time is up, its client leaves, or the server stops. Its wait also ends when the rights of its
// sender expire or are revoked. A waiting intent makes no queries.
//
// # The loop of an intent
//
// An intent resolves its names to a target: a group, or one partition for a group. Then it runs the loop of package readiness:
// take a ticket, probe unless the target is known to be empty, wait. Its wait ends with a wake of the ticket, a handoff, or the
// fallback timer. The wait also ends at the deadline, or when the client disconnects or the server stops. wait.go has the loop,
// probe.go the probe.
//
// # The registry
//
// Intents is the registry. Its lock guards the state of each intent: it probes, it sleeps, a push claims for it, or its wait has
// ended. The lock also guards the counts that decide which intents may wait (type admission), and the intents of each target. The
// registry has no order. Package notify has the tickets and their order, so it decides which intent is first, for a handoff and
// for a wake.
//
// The registry and the tickets are separate, because their entries differ. An intent is registered for its whole wait, by caller,
// group and target. A ticket exists from one probe to the next. It has several keys, and each key can have an instant. SQL
// waiters have tickets and are not in the registry. An announcement for a group without waiters needs only the lock of the
// notifier. The locks are taken in the order Intents, readiness.Tracker, notify.Notifier.
//
// # Rounds
//
// The first probe of an intent is a separate pop with one round trip. A probe of a group that still joins its queue is a pop too,
// because only a pop waits for the end of the join. Any other probe after a wake is part of a round. All intents that arrive
// during a round share the next round. A round has three steps:
//
//  1. one read-only preflight query for all targets of its intents,
//  2. a pure plan (package plan) that decides which intent gets which partition,
//  3. one round trip of claims, each with its own lease.
//
// If a resync wakes 1,000 intents and there is one message, the round makes one preflight and one claim. The preflight shows that
// nothing else is due, so the other 999 intents need no claim. A round with one intent can do without a preflight: its claim is
// also the probe. The condition is that the intent was woken for one partition, or that no second intent waits for its target.
//
// dispatch.poll_workers workers make the rounds. A group always has the same worker, so two rounds never plan the same group at
// the same time.
//
// # Handoff
//
// A push to one partition also claims for an intent that waits for the partition (Intents.Handoffs). The claim is in the last
// statements of the round trip of the push. In each group, the intent with the earliest deadline gets the handoff. Afterwards the
// push announces what is ready after the claim: the partition at the end of its lease, or nothing if the message was consumed.
// The target is known to be empty again, so the next intent of the client waits without a query.
//
// # What wakes an intent
//
//	a push to one partition                     its handoff, one intent of each group
//	a push, a transaction, a sequencer commit   events.OnReady after the commit
//	ack, nack, release, extend                  events.OnReady with what became ready
//	a lease expires, a delay or window ends     the timer: each probe sets it to the next due instant
//	a limited group has a token again           the timer: a refused claim has the instant
//	a lease of a limited group ends             events.OnReady with queue.Room
//	a queue or partition is created             events.OnCreated
//	any of these on another instance            the same event, from a notification
//	a queue is deleted or configured            events.OnResync
//	the listener connects, a peer falls silent  events.OnResync
//	a database connection breaks                events.OnResync
//	the database has a new epoch                events.OnResync
//	none of these                               the fallback timer
//
// An event with partitions wakes one intent for each partition (notify.Exclusive). The timer wakes one intent for each due
// instant. A creation wakes one intent for each name that it may have created, and for each set of tags. This intent resolves the
// name. The other intents with the same name then wait for the resolved target. A resync wakes all intents, and each round then
// costs one query. An event is a hint and the tables are the truth. The clock of the database decides when something is due.
// Local clocks only measure waits.
//
// # Limits
//
// The limits of a group may refuse a claim (Delivery.Limited), or allow nothing after it. Then the target is closed until
// LimitedIn has passed: no announcement of a partition wakes its intents, and arriving intents wait without a query. At that
// instant, or when the limits have room, one intent wakes. It probes like every other intent, so no intent knows the limits.
// Package readiness has the rules (Tracker.SetLimited).
//
// # Who forwards a wake
//
// An intent that was woken alone must use its wake or forward it. The wake is used:
//
//   - by a probe that finds nothing: the announced messages are no longer due;
//   - by a delivery from the partition of the wake. If messages or a lease are left, the delivery announces when the partition is
//     due again, for the intents that were not woken;
//   - by a delivery of a round. The round wakes an intent for each due partition that it found and did not assign.
//
// Wakes by the timer and by creations name no partition. A wake by the timer is for everything that is due at its instant. A wake
// by a creation is for everything that is due now.
//
// In every other case the intent forwards the wake when it ends: its client left, its time is up, it got other messages, or it
// panicked. After an error of the database, the next intent waits for dispatch.poll_interval. If the first intent may be the
// reason of the error, the next intent waits for a second.
//
// So no intent keeps waiting while a partition is due that it could take. The order in which intents wake does not matter,
// because an intent that takes the partition of another wake forwards its own wake.
//
// While the listener is proven, the fallback timer is the last safety net: it makes an intent probe after
// dispatch.fallback_interval. While the listener is not proven, all intents of a group share a backoff from
// dispatch.poll_interval to dispatch.max_poll_interval. A wake or a delivery resets the backoff.
//
// # Promises
//
//   - At most dispatch.max_intentions intents wait. At this limit, a caller or group below its share displaces an intent of a
//     caller or group above its share (type admission). So no caller or group can keep the others out. Every other new intent
//     gets CodeOverloaded after about a second.
//   - An intent is answered a little before its timeout. So a client with the same timeout does not close the connection during
//     the delivery.
//   - A client that left gets no lease. If it leaves during its claim, the server releases the lease at once.
//   - After the end of its rights an intent gets nothing. The store releases what was claimed for the intent.
//   - While the listener is proven, an intent for a target that is known to be empty waits without a query. So clients that poll
//     again every few seconds cost no query. wait=false always probes.
//
// The package declares the interface Store that it needs.
package dispatch
