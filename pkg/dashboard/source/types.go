package source

import "time"

// Counts are the messages of a queue or a partition by state.
type Counts struct {
	Total, Pending, Processing, Completed, DeadLetter int64
}

// Partition is a partition in a QueueStatus.
type Partition struct {
	ID, Name     string
	CreatedAt    time.Time
	Paused       bool
	Messages     Counts
	LastActivity *time.Time
	Oldest       *time.Time `json:"oldestMessage"`
	Newest       *time.Time `json:"newestMessage"`
}

// QueueStatus is GET /api/v1/status/queues/{queue}.
type QueueStatus struct {
	Queue struct {
		Name, Namespace, Task string
		CreatedAt             time.Time
		Paused                bool
		Options               map[string]any
	}
	Partitions []Partition
	Totals     Counts
	Swept      struct{ Retention, Completed, Evicted, Unread, Expired, Skipped int64 }
	Pagination struct {
		Limit int
		Next  *string
	}
}

// Group is an element of GET /api/v1/consumer-groups.
type Group struct {
	Name, QueueName, State string
	Members                int64
	PartitionsWithLag      int64
	TotalLag, MaxTimeLag   int64
	Paused                 bool
	SubscriptionMode       *string
	SubscriptionTimestamp  *time.Time
	SubscriptionCreatedAt  *time.Time
}

// Late is an element of GET /api/v1/consumer-groups/lagging.
type Late struct {
	Group     string  `json:"consumer_group"`
	Queue     string  `json:"queue_name"`
	Partition string  `json:"partition_name"`
	Lease     *string `json:"worker_id"`
	Lag       int64   `json:"offset_lag"`
	Seconds   int64   `json:"time_lag_seconds"`
}

// Target is a group, and a partition when PartitionID is not 0. Names that are not known are empty.
type Target struct {
	GroupID, PartitionID            int64
	Queue, ConsumerGroup, Partition string
}

// Dispatcher is GET /api/v1/status/dispatcher.
type Dispatcher struct {
	Listener struct {
		State             string
		SecondsSinceProof float64
		Reconnects, Peers int64
	}
	Inbox *struct {
		Waiting, Rejected int64
		OldestSeconds     float64
		Sequencer         bool
		Holder            *struct {
			PID               int64
			User, Application string
		}
	}
	Waiting int64
	Groups  []struct {
		Queue, Partition, Namespace, Task, ConsumerGroup string
		Waiting                                          int64
		OldestSeconds, NextTimeoutSeconds                float64
	}
	Due []struct {
		Target
		InSeconds float64
	}
	Backoff []struct {
		Target
		EmptyLooks   int64
		DelaySeconds float64
	}
	Batches []struct {
		Operation                 string
		Waiting, BlockedCallers   int64
		InFlight                  int64
		Flushes, Calls, Size      int64
		FlushSeconds              float64
		Splits, Retries, Failures int64
	}
	Truncated bool
}

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
