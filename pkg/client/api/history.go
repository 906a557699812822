package api

import "time"

// BucketTime is the start of a bucket, a period of a history. It is encoded in whole seconds.
type BucketTime struct{ time.Time }

// TimeRange is the time that an answer covers.
type TimeRange struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// HistorySpan is the time that an answer covers, and the size of its buckets.
type HistorySpan struct {
	TimeRange     TimeRange `json:"timeRange"`
	BucketMinutes int64     `json:"bucketMinutes"`
}

// Percentiles are the time from the commit of a push to the delivery, in milliseconds.
type Percentiles struct {
	P50Ms float64 `json:"p50Ms"`
	P95Ms float64 `json:"p95Ms"`
	P99Ms float64 `json:"p99Ms"`
}

// WorkerMetrics is the answer to GET /api/v1/analytics/worker-metrics.
type WorkerMetrics struct {
	HistorySpan
	PointCount int64         `json:"pointCount"`
	TimeSeries []WorkerPoint `json:"timeSeries"`
	Workers    []Worker      `json:"workers"`
	Queues     []QueueDelays `json:"queues"`
	Summary    WorkerSummary `json:"summary"`
}

// WorkerPoint has the figures of all instances in a bucket. Belfry sets the figures that only Queen MQ has to 0.
type WorkerPoint struct {
	Timestamp         BucketTime `json:"timestamp"`
	PushMessages      int64      `json:"pushMessages"`
	PopMessages       int64      `json:"popMessages"`
	AckMessages       int64      `json:"ackMessages"`
	PushRequests      int64      `json:"pushRequests"`
	PopRequests       int64      `json:"popRequests"`
	AckRequests       int64      `json:"ackRequests"`
	JobsDone          int64      `json:"jobsDone"`
	PushPerSecond     float64    `json:"pushPerSecond"`
	PopPerSecond      float64    `json:"popPerSecond"`
	AckPerSecond      float64    `json:"ackPerSecond"`
	AvgEventLoopLagMs int64      `json:"avgEventLoopLagMs"`
	MaxEventLoopLagMs int64      `json:"maxEventLoopLagMs"`
	AvgFreeSlots      int64      `json:"avgFreeSlots"`
	MinFreeSlots      int64      `json:"minFreeSlots"`
	DBConnections     int64      `json:"dbConnections"`
	AvgJobQueueSize   int64      `json:"avgJobQueueSize"`
	MaxJobQueueSize   int64      `json:"maxJobQueueSize"`
	BackoffSize       int64      `json:"backoffSize"`
	AvgLagMs          int64      `json:"avgLagMs"`
	MaxLagMs          int64      `json:"maxLagMs"`
	LagCount          int64      `json:"lagCount"`
	DBErrors          int64      `json:"dbErrors"`
	Acknowledged
}

// Acknowledged counts messages by what their acknowledgments said.
type Acknowledged struct {
	// Messages that consumers completed. The messages of a pop with autoAck are part of them.
	AckSuccess int64 `json:"ackSuccess"`
	// Messages that consumers could not process: acknowledged with failed or dlq.
	AckFailed int64 `json:"ackFailed"`
	// Messages that an acknowledgment made a dead letter.
	DLQCount int64 `json:"dlqCount"`
	// Messages that consumers gave back with retry.
	AckRetried int64 `json:"ackRetried"`
	// Acknowledgments that were not applied, such as those whose lease has ended. They do not say their queue, so only the
	// answers for all queues count them.
	AckRefused int64 `json:"ackRefused"`
}

// Worker is one process. Belfry sets the figures that only Queen MQ has to 0.
type Worker struct {
	Hostname          string    `json:"hostname"`
	WorkerID          int64     `json:"workerId"`
	AvgEventLoopLagMs int64     `json:"avgEventLoopLagMs"`
	MaxEventLoopLagMs int64     `json:"maxEventLoopLagMs"`
	FreeSlots         int64     `json:"freeSlots"`
	DBConnections     int64     `json:"dbConnections"`
	JobQueueSize      int64     `json:"jobQueueSize"`
	BackoffSize       int64     `json:"backoffSize"`
	MessagesProcessed int64     `json:"messagesProcessed"`
	LastSeen          time.Time `json:"lastSeen"`
}

// OtherQueues is the name of a sum. The history counts the busiest queues separately, and all others in this sum.
const OtherQueues = "(other)"

// QueueDelays has the number of messages of a queue and their delays.
type QueueDelays struct {
	QueueName Name  `json:"queueName"`
	PushCount int64 `json:"pushCount"`
	PopCount  int64 `json:"popCount"`
	AvgLagMs  int64 `json:"avgLagMs"`
	MaxLagMs  int64 `json:"maxLagMs"`
	Percentiles
	Acknowledged
}

// WorkerSummary has the sums of all buckets.
type WorkerSummary struct {
	TotalPushMessages int64 `json:"totalPushMessages"`
	TotalPopMessages  int64 `json:"totalPopMessages"`
	TotalAckMessages  int64 `json:"totalAckMessages"`
	TotalPushRequests int64 `json:"totalPushRequests"`
	TotalPopRequests  int64 `json:"totalPopRequests"`
	TotalAckRequests  int64 `json:"totalAckRequests"`
	TotalDBErrors     int64 `json:"totalDbErrors"`
	TotalAckFailed    int64 `json:"totalAckFailed"`
	TotalDLQ          int64 `json:"totalDlq"`
	PendingMessages   int64 `json:"pendingMessages"`
	TotalAckRetried   int64 `json:"totalAckRetried"`
	TotalAckRefused   int64 `json:"totalAckRefused"`
}

// QueueLag is an element of the answer to GET /api/v1/analytics/queue-lag. It describes what a queue delivered in a bucket.
type QueueLag struct {
	QueueName  Name       `json:"queueName"`
	PopCount   int64      `json:"popCount"`
	AvgLagMs   int64      `json:"avgLagMs"`
	MaxLagMs   int64      `json:"maxLagMs"`
	BucketTime BucketTime `json:"bucketTime"`
	Percentiles
}

// QueueOps is the answer to GET /api/v1/analytics/queue-ops.
type QueueOps struct {
	HistorySpan
	Series []QueueBucket `json:"series"`
	Queues []Name        `json:"queues"`
}

// QueueBucket has the figures of a queue in a bucket.
type QueueBucket struct {
	Bucket            BucketTime `json:"bucket"`
	QueueName         Name       `json:"queueName"`
	PushRequests      int64      `json:"pushRequests"`
	PushMessages      int64      `json:"pushMessages"`
	PopMessages       int64      `json:"popMessages"`
	PopEmpty          int64      `json:"popEmpty"`
	AckRequests       int64      `json:"ackRequests"`
	AckSuccess        int64      `json:"ackSuccess"`
	AckFailed         int64      `json:"ackFailed"`
	Transactions      int64      `json:"transactions"`
	PartitionsCreated int64      `json:"partitionsCreated"`
	PartitionsDeleted int64      `json:"partitionsDeleted"`
	PartitionCount    int64      `json:"partitionCount"`
	AvgLagMs          int64      `json:"avgLagMs"`
	MaxLagMs          int64      `json:"maxLagMs"`
	PushPerSecond     float64    `json:"pushPerSecond"`
	PopPerSecond      float64    `json:"popPerSecond"`
	AckPerSecond      float64    `json:"ackPerSecond"`
	EmptyPerSecond    float64    `json:"emptyPerSecond"`
	ParkedCount       int64      `json:"parkedCount"`
	Percentiles
	DLQCount   int64 `json:"dlqCount"`
	AckRetried int64 `json:"ackRetried"`
	AckRefused int64 `json:"ackRefused"`
	BucketBacklog
}

// BucketBacklog is the backlog of a queue at the end of a bucket, or with consumerGroup the backlog of the group in the queue. The
// members are null before the first count.
type BucketBacklog struct {
	// Unfinished messages.
	Backlog *int64 `json:"backlog"`
	// Age of the oldest unfinished message in seconds. It is 0 without a backlog.
	OldestSeconds *int64 `json:"oldestSeconds"`
	// When the backlog was counted. It can be long before the bucket, because Belfry writes a backlog only after a change.
	BacklogCountedAt *time.Time `json:"backlogCountedAt"`
}

// Retention is the answer to GET /api/v1/analytics/retention.
type Retention struct {
	HistorySpan
	Series []RetentionBucket `json:"series"`
	Totals Removed           `json:"totals"`
}

// RetentionBucket counts what sweeps deleted in a bucket.
type RetentionBucket struct {
	Bucket BucketTime `json:"bucket"`
	Removed
}

// Removed counts what sweeps deleted.
type Removed struct {
	RetentionMsgs          int64 `json:"retentionMsgs"`
	CompletedRetentionMsgs int64 `json:"completedRetentionMsgs"`
	EvictionMsgs           int64 `json:"evictionMsgs"`
	TotalMsgs              int64 `json:"totalMsgs"`
	EventCount             int64 `json:"eventCount"`
}
