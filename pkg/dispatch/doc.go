// Package dispatch is the room of the waiting requests. A pop with wait=true
// that finds nothing is held here until there is something for it, its time is
// up, its client has left, or the server stops; and it costs the database
// nothing while it is held.
//
// # The loop of a waiting request
//
//	take a ticket at the notifier      before looking, so that nothing that is
//	                                   announced meanwhile is missed
//	look                               unless it is known that nothing is there
//	wait                               for the ticket, the fallback timer, the
//	                                   deadline, the client's leaving, the stop
//	look again
//
// The first look of a request is a pop of its own, one round trip. A look after
// a wake-up goes through a round: everybody who asks while a round is in flight
// shares the next one. A round is one read-only preflight query for all targets
// asked for, a pure plan (pkg/plan) of who gets which partition, and one round
// trip of claims, each with a lease of its own. Targets are spread over
// dispatch.poll_workers workers by group, so that two rounds never plan the same
// group at a time. 1,000 requests woken by one message are one preflight and one
// claim: what the round learnt ("nothing due in this group before T") answers
// the other 999. An ask that is alone in its round and for its target needs no
// plan: its claim is its look.
//
// # Handoff
//
// Most often one request waits for just what is pushed. Then the push itself
// makes the claim for it, as the last statements of its own round trip
// (Handoffs), and the message is on its way to the consumer while the producer's
// answer is written: no wake-up, no look, no second round trip. Everybody is told
// all the same, because the lease is something to wait for.
//
// # What wakes
//
//	a push that one waits for             its handoff
//	a push, a commit of anything          the store announces it after COMMIT
//	ack, nack, release, extend            the pairs that became ready, likewise
//	lease expiry, delay, window           each look leaves the instant the next
//	                                      thing is due with the notifier
//	a queue or partition is created       Born
//	another instance did any of this      its notification, through Remote
//	a queue is deleted or configured      Doubt
//	the listener (re)connected, a         Doubt: all knowledge is dropped, and all
//	peer fell silent, a connection to     waiting requests look, one query a round
//	the database broke, another life
//	of the database (package store)
//	nothing of all this                   the fallback timer
//
// A notification is a hint; the table is the truth. The database's clock
// decides when something is due; local clocks only measure waits.
//
// # Known empty costs nothing
//
// Each look leaves a fact: nothing is due for this target before T. It holds
// until an announcement for the target, any doubt, T, or dispatch.fallback_interval;
// and only while the listener is proven, because otherwise other instances' pushes go unheard. A
// wait=true request for such a target waits without a query, so clients that
// poll again every few seconds cost nothing. wait=false always looks.
//
// # Fallback
//
// While the listener is proven the fallback timer is a last net
// (dispatch.fallback_interval). While it is not, each group backs off
// exponentially from dispatch.poll_interval to dispatch.max_poll_interval,
// shared by all requests waiting for it and reset by a wake-up or a delivery.
//
// # Consumers in SQL
//
// They wait outside, in their sessions (belfry.await), and are told by a NOTIFY. What one
// asks for is a wish. A vigil, one goroutine, watches for all that have the same, with
// tickets, facts and fallback as above; its look is a preflight, since the claim is
// theirs, and there is one such look at a time. It tells when a look sees something, once
// for all who asked until then, and after dispatch.fallback_interval. Every instance does
// so: one that dies takes nothing along, and a notification too many is a pop in vain.
//
// What they have emptied they leave due (package store), and no push announces what
// is due already; so a look that sees nothing else has it settled, and looks again. And
// what is due may be held by one of them in an open transaction. So when there is
// something to tell of again although nothing was announced since, it is told ever later,
// up to dispatch.max_poll_interval. In a group where others are busy each commit of
// theirs is announced, and looked at every 25 ms.
//
// A wish that was said while no LISTEN was in force is lost. So whenever one comes
// into force, all of them are told to ask again (AskAgain).
//
// # Bounds and promises
//
// At most dispatch.max_intentions requests wait; one more gets CodeOverloaded
// and disturbs nobody. A request is answered a little before its timeout, so
// that a client whose own limit is the same is not cut off in mid-delivery. A
// client that left takes no lease; one that leaves while its claim runs has it
// released at once.
//
// The package declares the Store it needs. Importable from floor 4 upwards.
package dispatch
