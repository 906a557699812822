// Package notify wakes the waiters of a key, now or at a later instant. It works like a condition
// variable, except that a waiter holds a channel and can wait for other things as well.
//
// A waiter takes the ticket, looks, waits, and looks again:
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
// A writer publishes first and announces second: after the commit, not before it.
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
// If 10,000 waiters wake for one message, 9,999 find nothing. So a waiter that takes what it
// finds has an exclusive ticket, and Announce wakes one of these:
//
//	ticket := notifier.Exclusive(deadline, key) // instead of Ticket
//	...
//	ticket.SetIdle(true)                   // before waiting: others wake first while it looks
//	<-ticket.C()
//	wake := ticket.Accept()                // now the waiter holds this wake
//
// The waiter that wakes looks once more. Its look uses the wake if it shows that what was announced is
// taken, or is not there. In every other case the waiter forwards the wake: it announces the keys of the
// wake again. So it does if it leaves without a look, the look fails, it takes something else, or the look
// shows that more is left. Close forwards a wake that was not accepted. So for each thing that was announced
// and is not taken, a waiter looks or is about to, as long as one has an exclusive ticket.
//
// A scheduled instant wakes one exclusive ticket, whose look learns how much is due. Broadcast wakes all.
//
// # One of each kind
//
// Waiters of several kinds may wait for one event. Waiters of one kind share their first key. One of them
// looks for all. If it finds a new key, it calls Extend, and the others wait for that key too. AnnounceEach
// wakes one exclusive ticket for each kind:
//
//	ticket := notifier.Exclusive(deadline, kind, event)
//	<-ticket.C()                           // another waiter called AnnounceEach(cause, event)
//	ticket.Accept()                        // the wake has the key kind
//	notifier.Extend(kind, key)             // before looking, with a new ticket for key
//
// The package promises:
//
//   - A ticket wakes at most once. Announce wakes at most one exclusive ticket: the earliest deadline
//     first, then the oldest. A waiter that still looks comes after all that wait.
//   - Broadcast wakes all tickets of the key, and every announcement wakes the shared ones.
//   - No waiter wakes before the announced instant, by the clock of this process.
//     Setting the wall clock does not move the instant.
//   - An announcement never blocks. Channels are closed outside the lock.
//   - All keys share one heap and one timer. A goroutine runs only while it fires.
//   - A key exists only while it has tickets, and a scheduled instant is dropped with
//     the last ticket of its key. A later waiter looks first and announces the instant
//     again. So the open tickets bound the memory: each costs as much as the keys that it has, from
//     its own call and from Extend.
//
// An announcement is a hint. A waiter that wakes may find nothing. It also needs a
// fallback timer for announcements that were never made.
//
// The package is pure memory and imports only pkg/process/heap of Belfry.
package notify
