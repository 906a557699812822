package api

// Configure is the body of POST /api/v1/configure.
type Configure struct {
	Queue     Name `json:"queue"`
	Namespace Name `json:"namespace,omitzero"` // An absent namespace or task is empty.
	Task      Name `json:"task,omitzero"`
	// An option that is absent gets its default. Unknown options are ignored.
	Options SetOptions `json:"options,omitzero"`
}

// SetOptions are the options of a queue. In a request, an option that is nil gets its default, or is not changed. The answer
// has all options of Queen MQ. It has an option that only Belfry has if the request sent it.
//
// The defaults are a LeaseTime of 300, a RetryLimit of 7, a RetryDelay of 1,000, a RetryBackoff of 2, a RetryDelayMax of 60,000, a
// TTL of 3,600, and otherwise 0 and false.
type SetOptions struct {
	// The duration of a lease in seconds. 0 means 60. `defaults.lease_time` sets another default.
	LeaseTime *int64 `json:"leaseTime,omitzero"`
	// The number of repeated deliveries of a failed message before it becomes a dead letter.
	// `defaults.retry_limit` sets another default.
	RetryLimit *int64 `json:"retryLimit,omitzero"`
	// The earliest delivery of a message, in seconds after its push.
	DelayedProcessing *int64 `json:"delayedProcessing,omitzero"`
	// A partition delivers when it has received no push for this many seconds.
	WindowBuffer *int64 `json:"windowBuffer,omitzero"`
	// Payloads are encrypted at rest. Without `encryption.key` the server refuses pushes to the queue with 400.
	EncryptionEnabled *bool `json:"encryptionEnabled,omitzero"`
	RetentionEnabled  *bool `json:"retentionEnabled,omitzero"` // Enables the next two options.
	// Messages older than this are deleted, also unconsumed ones. 0 means off.
	RetentionSeconds *int64 `json:"retentionSeconds,omitzero"`
	// Messages older than this that every group has consumed are deleted. 0 means off.
	CompletedRetentionSeconds *int64 `json:"completedRetentionSeconds,omitzero"`
	// Messages older than this that a group has not consumed are deleted. 0 means off.
	MaxWaitTimeSeconds *int64 `json:"maxWaitTimeSeconds,omitzero"`
	// The maximum number of waiting messages. A push that exceeds it gets 429. 0 means no limit.
	MaxSize *int64 `json:"maxSize,omitzero"`
	// The order of queues in a pop by namespace or task. The highest priority comes first.
	Priority *int `json:"priority,omitzero"`
	// The pause of a partition after a failed acknowledgment, in milliseconds, ±20 % at random. 0 means none. A failed
	// redriven message pauses only the later redriven messages of the partition. `defaults.retry_delay` sets another default.
	RetryDelay *int64 `json:"retryDelay,omitzero"`
	// Accepted and ignored, so that no default deletes messages. Use `expireAfterSeconds`.
	TTL *int64 `json:"ttl,omitzero"`
	// Accepted and ignored: a message without remaining retries always becomes a dead letter.
	DeadLetterQueue    *bool `json:"deadLetterQueue,omitzero"`
	DLQAfterMaxRetries *bool `json:"dlqAfterMaxRetries,omitzero"` // Accepted and ignored.
	// Each further failure multiplies the pause by this number. 1 means that it does not grow.
	RetryBackoff *int64 `json:"retryBackoff,omitzero"`
	// The longest pause in milliseconds. A `retryDelay` above it stays as it is.
	RetryDelayMax *int64 `json:"retryDelayMax,omitzero"`
	// Messages older than this are not delivered. 0 means off.
	ExpireAfterSeconds *int64 `json:"expireAfterSeconds,omitzero"`
	DeadLetterExpired  *bool  `json:"deadLetterExpired,omitzero"` // Expired messages become dead letters.
	// After this many deliveries without an acknowledgment a message becomes a dead letter. 0 means off. Deliveries to
	// consumers that crash count here, but not for `retryLimit`. For a redriven message only the deliveries after the
	// redrive count.
	MaxDeliveries *int64 `json:"maxDeliveries,omitzero"`
}

// Configured is the answer of a configure call. Its options are those in force.
type Configured struct {
	Configured  bool       `json:"configured"`
	QueueID     ID         `json:"queueId"`
	PartitionID ID         `json:"partitionId"` // The id of the partition `Default`.
	Queue       Name       `json:"queue"`
	Namespace   Name       `json:"namespace"`
	Task        Name       `json:"task"`
	Options     SetOptions `json:"options"`
	// Unknown options, which were dropped, options that have no effect, and encryption without a key. Absent without any.
	Warnings []string `json:"warnings,omitzero"`
}

// ChangedQueue is the answer of PATCH /api/v1/resources/queues/:queue. Its options are those in force.
type ChangedQueue struct {
	Configured bool         `json:"configured"`
	QueueID    ID           `json:"queueId"`
	Queue      Name         `json:"queue"`
	Namespace  Name         `json:"namespace"`
	Task       Name         `json:"task"`
	Options    QueueOptions `json:"options"`           // All options. The request describes their meaning.
	Warnings   []string     `json:"warnings,omitzero"` // Unknown options, and options without effect. Absent without any.
}

// DeletedQueue is the answer of DELETE /api/v1/resources/queues/:queue.
type DeletedQueue struct {
	Deleted bool `json:"deleted"`
	Queue   Name `json:"queue"`
	Existed bool `json:"existed"`
}

// Paused is the answer when a queue, a partition or a group was paused or resumed.
type Paused struct {
	Success   bool  `json:"success"`
	Queue     Name  `json:"queueName"`
	Partition *Name `json:"partitionName"` // null unless a partition was named.
	Group     *Name `json:"consumerGroup"` // null unless a group was named.
	Paused    bool  `json:"paused"`
	Changed   bool  `json:"changed"` // false if it was so already.
}
