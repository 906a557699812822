// Package notify wakes whoever waits for a key, now or at an instant to come. It
// is a condition variable whose waiters hold a channel, so that they can wait
// for other things as well.
//
// A waiter follows one rule: take the ticket, look, wait, look again.
//
//	ticket := notifier.Ticket(key)   // before looking
//	found, next := look()            // next: when there will be something, if known
//	if !found {
//		notifier.Announce(key, next) // the future goes into the heap
//		select {
//		case <-ticket.C():           // look again, with a new ticket
//		case <-ctx.Done():
//		}
//	}
//	ticket.Close()
//
// Whoever changes what a look finds follows another: publish first, announce
// second. After a commit, not before it.
//
// Together they lose nothing. Announce and Ticket exclude each other. Either the
// ticket came first, then the announcement wakes it; or the announcement came
// first, then what was published before it was there before the ticket, and the
// look that follows the ticket finds it.
//
// The package promises that
//
//   - a ticket wakes at most once, and then every ticket of the key does: who of
//     them gets something is decided by looking;
//   - no waiter wakes before the instant that was announced, by the clock of
//     this process, and a wall clock that is set does not move the instant;
//   - nobody blocks while telling: channels are closed outside the lock, nothing
//     is sent;
//   - there is one heap and one timer, whatever the number of keys, and no
//     goroutine except while the timer rings;
//   - a key exists only while it has tickets. What is announced for a key without
//     tickets is forgotten, as is an instant when the last ticket of its key
//     leaves: who comes later looks first, and announces again what it finds to
//     come. Memory is bounded by the tickets the caller hands out.
//
// An announcement is a hint. A waiter that wakes may find nothing, and keeps a
// fallback timer for announcements that were never made.
//
// It is pure memory and imports nothing of ours. Importable by every package.
package notify
