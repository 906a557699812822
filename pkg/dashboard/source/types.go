package source

import "time"

// Activity is GET /api/v1/analytics/worker-metrics.
type Activity struct {
	TimeSeries []struct {
		Timestamp                               time.Time
		PushPerSecond, PopPerSecond             float64
		AckPerSecond                            float64
		AckFailed, DLQCount, DBErrors, MaxLagMs int64
	}
	Workers []struct {
		Hostname                string
		WorkerID, DBConnections int64
		MessagesProcessed       int64
		LastSeen                time.Time
	}
	Queues []struct {
		QueueName           string
		PushCount, PopCount int64
		P50Ms, P95Ms, P99Ms float64
	}
	Summary struct {
		TotalPushMessages, TotalPopMessages, TotalAckMessages int64
		TotalAckFailed, TotalDLQ, PendingMessages             int64
	}
}

// QueueBucket is what happened to a queue in one interval.
type QueueBucket struct {
	Bucket                                    time.Time
	QueueName                                 string
	PushMessages, PopMessages, AckSuccess     int64
	AckFailed, MaxLagMs                       int64
	PushPerSecond, PopPerSecond, AckPerSecond float64
	P50Ms, P95Ms, P99Ms                       float64
}

// QueueOps is GET /api/v1/analytics/queue-ops.
type QueueOps struct {
	TimeRange     struct{ From, To time.Time }
	BucketMinutes int
	Series        []QueueBucket
}

// Explanation is GET /api/v1/explain.
type Explanation struct {
	Code, Sentence       string
	NextChangeAt         *time.Time
	NextTransactionID    *string
	Failures, Deliveries int64
	Lag, Waiting         int64
	ConsumedAt           *time.Time
	Attempts             *struct {
		Deliveries, Failures             int64
		LeasedUntil, RetryAt, RedrivenAt *time.Time
	}
}

// DeadLetter is an element of GET /api/v1/dlq.
type DeadLetter struct {
	TransactionID                 *string
	PartitionID, Queue, Partition string
	ConsumerGroup, ErrorMessage   string
	RetryCount                    int64
	FailedAt                      time.Time
}

// DeadLetterCount is a number of dead letters with the same error, or in the same partition.
type DeadLetterCount struct {
	Queue, ConsumerGroup    string
	ErrorMessage, Partition string
	Count                   int64
	Oldest, Newest          time.Time
}

// DeadLetters is GET /api/v1/dlq/summary.
type DeadLetters struct {
	Examined, Matched  int64
	Next               *string
	Errors, Partitions []DeadLetterCount
	Messages           []DeadLetter
	Pagination         struct{ Next *string }
}
