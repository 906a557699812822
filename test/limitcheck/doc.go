// Package limitcheck judges whether a limited consumer group kept its limits. Triggers record each lease, so the judgement does
// not need the clients and includes leases whose answers were lost.
//
// # Concurrency
//
// A trigger records the instant at which a transaction begins or ends a lease. The commit follows. A claim takes the place of a
// lease only after the end of that lease has committed, and it records its own instant afterwards. So with a constant limit, the recorded
// periods never overlap more often than the limit allows. The trigger also counts the live leases that it sees, which is
// a check in one snapshot that also holds while the limit changes.
//
// # Rate
//
// A claim takes its tokens between the begin of its statement and the instant of the trigger. A delivery certainly falls into
// a window that contains both. In a window of length t, all such deliveries have at most burst + t * rate messages.
//
// Both rules make no false alarm, unless the clock of the database moves backwards.
package limitcheck
