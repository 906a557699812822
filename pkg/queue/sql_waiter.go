package queue

// SQLWaiter is a SQL session that waits in belfry.await for a message.
type SQLWaiter struct {
	Queue, Group string
	// Partition restricts the wait to one partition. Nil means any partition.
	Partition *string
	// Channel is the NOTIFY channel that wakes the session. Sessions that wait for
	// the same queue, group and partition share one channel.
	Channel string
}

// AwaitAgainChannel is the NOTIFY channel that asks all SQL waiters to call
// belfry.await again, because an instance may have missed their first call.
const AwaitAgainChannel = "belfry_again"
