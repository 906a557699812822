// Package sqlwait wakes SQL waiters. A SQL waiter is a session that found nothing to pop and waits
// in belfry.await. It listens on a NOTIFY channel, and all sessions that wait for the same queue,
// group and partition share one channel.
//
// A waiter announces itself with a notification (events.OnSQLWaiter). For each channel with waiters
// the Watcher runs the loop of package readiness in one goroutine. A probe claims nothing, because
// the waiter claims for itself. If it sees something, the Watcher notifies the channel, which wakes
// all of its waiters. After dispatch.fallback_interval the channel is notified in any case. A channel
// on which no waiter has announced itself for that long is dropped.
//
// Every instance runs the loop for every waiter, so the death of an instance loses no wake. A waiter
// that was notified without need pops once and finds nothing.
//
// # What SQL consumers leave behind
//
// A SQL consumer leaves a drained cursor marked ready, and a push to a ready cursor announces
// nothing. So a probe that sees only drained cursors settles them and probes again.
//
// A SQL consumer may also hold messages in an open transaction. A probe sees these messages, but a
// pop finds nothing. So if nothing was announced since the last notification, the next one is
// delayed. The delay doubles each time, up to dispatch.max_poll_interval.
//
// In a group with busy SQL consumers each of their commits is announced. So a wait probes after two wakes at
// once, and then at most every 25 ms.
//
// # Missed announcements of waiters
//
// A waiter that announces itself while no instance listens is not heard. So each time LISTEN comes
// into force (events.OnListening), all waiters are asked to announce themselves again. The same
// happens after the number of channels has exceeded its bound.
//
// The package declares the Store it needs.
package sqlwait
