package queue

import "time"

// Options are the fifteen options of a queue, as POST /api/v1/configure takes
// and echoes them (wire contract, section 5). Durations are whole seconds on
// the wire except RetryDelay, which is milliseconds.
type Options struct {
	LeaseTime                 int64 `json:"leaseTime"`
	RetryLimit                int64 `json:"retryLimit"`
	DelayedProcessing         int64 `json:"delayedProcessing"`
	WindowBuffer              int64 `json:"windowBuffer"`
	EncryptionEnabled         bool  `json:"encryptionEnabled"`
	RetentionEnabled          bool  `json:"retentionEnabled"`
	RetentionSeconds          int64 `json:"retentionSeconds"`
	CompletedRetentionSeconds int64 `json:"completedRetentionSeconds"`
	MaxWaitTimeSeconds        int64 `json:"maxWaitTimeSeconds"`
	MaxSize                   int64 `json:"maxSize"`
	Priority                  int64 `json:"priority"`
	RetryDelay                int64 `json:"retryDelay"`
	TTL                       int64 `json:"ttl"`
	DeadLetterQueue           bool  `json:"deadLetterQueue"`
	DLQAfterMaxRetries        bool  `json:"dlqAfterMaxRetries"`
}

// Defaults are what an operator may choose for all queues and requests that do
// not say otherwise: config section "defaults".
type Defaults struct {
	// LeaseTime is the lease length of a queue that names none.
	LeaseTime time.Duration `mapstructure:"lease_time"`
	// RetryLimit is how often a failed batch is redelivered before its
	// messages are dead-lettered, for a queue that names none.
	RetryLimit int64 `mapstructure:"retry_limit"`
	// PopTimeout is how long wait=true waits when the request says nothing.
	PopTimeout time.Duration `mapstructure:"pop_timeout"`
	// PopBatchSize is the batch of a pop that says nothing.
	PopBatchSize int `mapstructure:"pop_batch_size"`
	// SubscriptionMode is used when a pop says nothing: "" (all) or "new".
	SubscriptionMode string `mapstructure:"subscription_mode"`
}

// DefaultDefaults are the values of the wire contract.
func DefaultDefaults() Defaults {
	return Defaults{
		LeaseTime: 300 * time.Second, RetryLimit: 3,
		PopTimeout: 30 * time.Second, PopBatchSize: 1,
	}
}

// Validate names every value that cannot work.
func (d Defaults) Validate() error {
	return join(
		check(d.LeaseTime >= time.Second, "defaults.lease_time is %s: it must be at least 1s", d.LeaseTime),
		check(d.RetryLimit >= 0, "defaults.retry_limit is %d: it must not be negative", d.RetryLimit),
		check(d.PopTimeout > 0, "defaults.pop_timeout is %s: it must be positive", d.PopTimeout),
		check(d.PopBatchSize >= 1, "defaults.pop_batch_size is %d: it must be at least 1", d.PopBatchSize),
		check(d.SubscriptionMode == "" || d.SubscriptionMode == "all" || d.SubscriptionMode == "new",
			"defaults.subscription_mode is %q: it must be empty, all or new", d.SubscriptionMode),
	)
}

// Options returns the options of a queue that was configured with none.
func (d Defaults) Options() Options {
	return Options{
		LeaseTime: int64(d.LeaseTime / time.Second), RetryLimit: d.RetryLimit,
		RetryDelay: 1000, TTL: 3600,
	}
}
