package api

// Configure is the body of POST /api/v1/configure.
type Configure struct {
	Queue     Name `json:"queue"`
	Namespace Name `json:"namespace,omitzero"` // An absent namespace is empty.
	Task      Name `json:"task,omitzero"`      // An absent task is empty.
	// An option that is absent gets its default. Unknown options are ignored.
	Options SetOptions `json:"options,omitzero"`
}

// SetOptions are the options of a queue. POST /api/v1/configure sets an option that is nil to its default. A PATCH of the queue
// does not change an option that is nil. The answer has all options that Queen MQ knows. It has the other options only if the
// request sent them.
//
// The defaults are LeaseTime 300, RetryLimit 7, RetryDelay 1,000, RetryBackoff 2, RetryDelayMax 60,000 and TTL 3,600. The
// defaults of the other options are 0 and false.
type SetOptions struct {
	// The duration of a lease in seconds. 0 means 60. The setting `defaults.lease_time` changes the default.
	LeaseTime *int64 `json:"leaseTime,omitzero"`
	// The number of repeated deliveries of a failed message before it becomes a dead letter.
	// The setting `defaults.retry_limit` changes the default.
	RetryLimit *int64 `json:"retryLimit,omitzero"`
	// Each message is delivered at the earliest this many seconds after its push.
	DelayedProcessing *int64 `json:"delayedProcessing,omitzero"`
	// A partition delivers messages only after it has received no push for this many seconds.
	WindowBuffer *int64 `json:"windowBuffer,omitzero"`
	// Payloads are encrypted at rest. Without `encryption.key` the server refuses pushes to the queue with 400.
	EncryptionEnabled *bool `json:"encryptionEnabled,omitzero"`
	RetentionEnabled  *bool `json:"retentionEnabled,omitzero"` // Enables `retentionSeconds` and `completedRetentionSeconds`.
	// The age in seconds after which messages are deleted, also if a group has not consumed them. 0 means off.
	RetentionSeconds *int64 `json:"retentionSeconds,omitzero"`
	// The age in seconds after which messages are deleted if every group has consumed them. 0 means off.
	CompletedRetentionSeconds *int64 `json:"completedRetentionSeconds,omitzero"`
	// The age in seconds after which messages are deleted if a group has not consumed them. 0 means off.
	MaxWaitTimeSeconds *int64 `json:"maxWaitTimeSeconds,omitzero"`
	// The maximum number of waiting messages. A push that exceeds it gets 429. 0 means no limit.
	MaxSize *int64 `json:"maxSize,omitzero"`
	// A pop by namespace or task chooses queues in the order of this number. The queue with the highest number comes first.
	Priority *int `json:"priority,omitzero"`
	// The pause of a partition after a failed acknowledgment, in milliseconds, ±20 % at random. 0 means no pause. A failed
	// redriven message pauses only the later redriven messages of the partition. The setting `defaults.retry_delay` changes
	// the default.
	RetryDelay *int64 `json:"retryDelay,omitzero"`
	// Accepted and ignored, because clients that send its default would lose messages. Use `expireAfterSeconds`.
	TTL *int64 `json:"ttl,omitzero"`
	// Accepted and ignored: a message without remaining retries always becomes a dead letter.
	DeadLetterQueue    *bool `json:"deadLetterQueue,omitzero"`
	DLQAfterMaxRetries *bool `json:"dlqAfterMaxRetries,omitzero"` // Accepted and ignored.
	// Each further failure multiplies the pause by this number. With 1 the pause does not grow.
	RetryBackoff *int64 `json:"retryBackoff,omitzero"`
	// The longest pause in milliseconds. It does not shorten a larger `retryDelay`.
	RetryDelayMax *int64 `json:"retryDelayMax,omitzero"`
	// The age in seconds after which a message is not delivered. 0 means off.
	ExpireAfterSeconds *int64 `json:"expireAfterSeconds,omitzero"`
	DeadLetterExpired  *bool  `json:"deadLetterExpired,omitzero"` // Expired messages become dead letters.
	// After this many deliveries without an acknowledgment a message becomes a dead letter. 0 means off. Deliveries to
	// consumers that crash count for `maxDeliveries`, but not for `retryLimit`. For a redriven message only the deliveries
	// after the redrive count.
	MaxDeliveries *int64 `json:"maxDeliveries,omitzero"`
	// The name of a new partition up to this text, at most 32 bytes, is its tenant. A name without the text is the tenant as a
	// whole. A partition keeps its tenant. Empty means off.
	TenantDelimiter *string `json:"tenantDelimiter,omitzero"`
}

// Configured is the answer of a configure call. It has the options in force.
type Configured struct {
	Configured  bool       `json:"configured"`
	QueueID     ID         `json:"queueId"`
	PartitionID ID         `json:"partitionId"` // The id of the partition `Default`.
	Queue       Name       `json:"queue"`
	Namespace   Name       `json:"namespace"`
	Task        Name       `json:"task"`
	Options     SetOptions `json:"options"`
	// Warnings about unknown options, options without effect, and encryption without a key. Absent without a warning.
	Warnings []string `json:"warnings,omitzero"`
}

// ChangedQueue is the answer of PATCH /api/v1/resources/queues/:queue. It has the options in force.
type ChangedQueue struct {
	Configured bool         `json:"configured"`
	QueueID    ID           `json:"queueId"`
	Queue      Name         `json:"queue"`
	Namespace  Name         `json:"namespace"`
	Task       Name         `json:"task"`
	Options    QueueOptions `json:"options"`           // All options. The reference of the request describes them.
	Warnings   []string     `json:"warnings,omitzero"` // Warnings about unknown options and options without effect. Absent without a warning.
}

// DeletedQueue is the answer of DELETE /api/v1/resources/queues/:queue.
type DeletedQueue struct {
	Deleted bool `json:"deleted"`
	Queue   Name `json:"queue"`
	Existed bool `json:"existed"`
}

// Reason is the optional body of a request that pauses.
type Reason struct {
	Reason string `json:"reason,omitzero"` // The reason for the pause, which pages and answers show.
}

// Pause is a paused queue, partition or group.
type Pause struct {
	Queue     Name    `json:"queue"`
	Partition *string `json:"partition"`     // null unless only this partition is paused.
	Group     *string `json:"consumerGroup"` // null unless only this group is paused.
	Reason    *string `json:"reason"`        // null if the operator gave no reason.
}

// Pauses is the answer to GET /api/v1/pauses.
type Pauses struct {
	Pauses []Pause `json:"pauses"`
}

// Paused is the answer when a queue, a partition or a group was paused or resumed.
type Paused struct {
	Success   bool  `json:"success"`
	Queue     Name  `json:"queueName"`
	Partition *Name `json:"partitionName"` // null if the request names no partition.
	Group     *Name `json:"consumerGroup"` // null if the request names no group.
	Paused    bool  `json:"paused"`
	Changed   bool  `json:"changed"` // false if `paused` already had this value.
}
