// Package notify wakes the waiters of a key, now or at a later instant. It works like a condition
// variable, except that a waiter holds a channel and can wait for other things as well.
//
// A waiter takes a ticket, looks whether there is something for it, waits, and looks again:
//
//	ticket := notifier.Ticket(key)   // before looking
//	found, next := look()            // next: when there will be something, if known
//	if !found {
//		notifier.Announce(next, notify.ByTimer, key) // schedules a wake at that instant
//		select {
//		case <-ticket.C():           // look again, with a new ticket
//		case <-ctx.Done():
//		}
//	}
//	ticket.Close()
//
// A waiter takes its ticket before it looks. A writer publishes (commits) before it announces.
//
// With these two rules no wake is lost:
//
//  1. Announce and Ticket take the same lock, so one comes before the other.
//  2. If the ticket came first, the announcement wakes it.
//  3. If the announcement came first, the publication came before the ticket too.
//     The waiter looks after it takes the ticket, so it finds the publication.
//
// # Exclusive tickets
//
// If 10,000 waiters wake for one message, 9,999 find nothing. So a waiter that takes what it finds uses an exclusive ticket.
// Announce wakes one of the exclusive tickets:
//
//	ticket := notifier.Exclusive(deadline, key) // instead of Ticket
//	...
//	ticket.SetIdle(true)                   // before waiting; a ticket that is not idle wakes last
//	<-ticket.C()
//	wake := ticket.Accept()                // now the waiter holds this wake
//
// The woken waiter looks once more. The wake is used if this look takes the announced item, or finds that the item is gone. In
// every other case the waiter must forward the wake: it announces the keys of the wake again. Examples: the waiter leaves without
// a look, the look fails, the waiter takes another item, or more items are left. Close forwards a wake that was not accepted. So
// while there are exclusive tickets, a waiter looks, or is about to look, for each announced item that is not taken.
//
// A scheduled instant wakes one exclusive ticket. Its waiter finds out how much is due. Broadcast wakes all tickets.
//
// # One of each kind
//
// Waiters of several kinds may wait for one event. All waiters of one kind have the same first key. One waiter of each kind looks
// for its whole kind. If it finds a new key, it calls Extend, so that the other waiters of its kind wait for that key too.
// AnnounceEach wakes one exclusive ticket of each kind:
//
//	ticket := notifier.Exclusive(deadline, kind, event)
//	<-ticket.C()                           // another waiter called AnnounceEach(cause, event)
//	ticket.Accept()                        // the wake has the key kind
//	notifier.Extend(kind, key)             // before looking, with a new ticket for key
//
// The package promises:
//
//   - A ticket wakes at most once. Announce wakes at most one exclusive ticket. The order is: idle tickets first, then the
//     earliest deadline, then the oldest ticket.
//   - Broadcast wakes all tickets of the key. Every announcement wakes all shared tickets of its keys.
//   - No waiter wakes before the announced instant, by the clock of this process.
//     Setting the wall clock does not move the instant.
//   - An announcement never blocks. Channels are closed outside the lock.
//   - All keys share one heap and one timer. A goroutine runs only while the timer fires.
//   - A key exists only while it has tickets. When its last ticket closes, its scheduled instant is dropped. A later waiter looks
//     first and announces the instant again. So the number of open tickets and of their keys bounds the memory, including the
//     keys from Extend.
//
// An announcement is a hint. A waiter that wakes may find nothing. Every waiter also needs a fallback timer for announcements
// that were never made.
//
// The package uses only memory and imports only pkg/process/heap of Belfry.
package notify
