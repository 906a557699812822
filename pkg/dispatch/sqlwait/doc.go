// Package sqlwait wakes SQL waiters. A SQL waiter is a session that found nothing to pop and waits
// in belfry.await. It listens on a NOTIFY channel, and all sessions that wait for the same queue,
// group and partition share one channel.
//
// A waiter announces itself with a notification (events.OnSQLWaiter). For each channel with waiters the Watcher runs the loop of
// package readiness in one goroutine. A probe claims nothing, because the waiter makes its own claim. If a probe finds messages,
// the Watcher notifies the channel, which wakes all waiters of the channel. After dispatch.fallback_interval the Watcher notifies
// the channel even if no probe found messages. If no waiter announces itself on a channel for dispatch.fallback_interval, the
// Watcher drops the channel.
//
// Every instance runs the loop for every waiter, so no wake is lost if an instance dies. A waiter that is notified unnecessarily
// pops once and finds nothing.
//
// # What SQL consumers leave behind
//
// A cursor whose messages were all taken is called drained. A SQL consumer leaves a drained cursor marked ready, and a push to a
// ready cursor announces nothing. So a probe that sees only drained cursors settles them and probes again.
//
// A SQL consumer may also hold messages in an open transaction. A probe sees these messages, but a pop finds nothing. So if
// nothing was announced since the last notification, the next notification is delayed. The delay doubles each time, up to
// dispatch.max_poll_interval.
//
// Each commit of a SQL consumer is announced. Busy SQL consumers could cause very many probes. So a loop probes at once after two
// wakes, and then at most every 25 ms.
//
// # Missed announcements of waiters
//
// A waiter that announces itself while no instance listens is not heard. So each time LISTEN takes effect (events.OnListening),
// the Watcher asks all waiters to announce themselves again. The Watcher also asks them dispatch.fallback_interval after the
// number of channels has exceeded its limit.
//
// The package declares the interface Store that it needs.
package sqlwait
