package source

import "time"

// Queue is an element of GET /api/v1/queues.
type Queue struct {
	Name, Namespace, Task string
	CreatedAt             time.Time
	Paused                bool
	Groups, Partitions    int64
	Messages              Counts
	CountsAreLowerBounds  bool
	OldestSeconds         int64
}

// Queues is GET /api/v1/queues.
type Queues struct {
	Queues     []Queue
	Pagination struct{ Next *string }
}

// Tags is GET /api/v1/tags.
type Tags struct {
	Tags []struct{ Namespace, Task string }
}

// Problem is an element of GET /api/v1/problems.
type Problem struct {
	Kind                            string
	Urgent                          bool
	Queue, ConsumerGroup, Partition string
	AgeSeconds, Messages            int64
	MessagesAreLowerBound           bool
	Deliveries, RetryInSeconds      int64
	Session                         string
}

// Problems is GET /api/v1/problems.
type Problems struct {
	Problems        []Problem
	Found, Examined int
	Pagination      struct{ Next *string }
}
