package queue

// SQLWaiter is what a consumer in SQL wants to be told of (belfry.await, migration
// 000030): that there is something to pop.
type SQLWaiter struct {
	Queue, Group string
	// Partition restricts it to one partition; nil means any.
	Partition *string
	// Channel is the NOTIFY channel on which it is told. The same wish has the same
	// channel, whoever asks.
	Channel string
}

// AwaitAgainChannel is the NOTIFY channel on which all who asked are told to ask again,
// because an instance may not have heard them.
const AwaitAgainChannel = "belfry_again"
