package queue

import "time"

// Options are the fifteen options of a queue, as POST /api/v1/configure takes
// and echoes them (wire contract, section 5). Durations are whole seconds on
// the wire except RetryDelay, which is milliseconds.
//
// All are stored and echoed. Each change takes effect at once on all instances.
//
//	leaseTime                  how long a delivery is leased; 0: 60
//	retryLimit                 failed acks of a first message before it is dead-lettered
//	delayedProcessing          a message is delivered this long after it was stored
//	windowBuffer               a partition is delivered once nothing came for so long
//	encryptionEnabled          payloads are encrypted at rest, if the server has a key
//	retentionEnabled           switches the next two on
//	retentionSeconds           older messages are deleted
//	completedRetentionSeconds  older messages that every group has passed are deleted
//	maxWaitTimeSeconds         older messages that a group has not passed are deleted
//	maxSize                    a push that would leave more waiting is refused; 0: no limit
//	priority                   order among queues in pops by namespace and task
//	retryDelay                 see Extensions.RetryBackoff: only if it is sent
//	ttl                        NONE: see Extensions.ExpireAfterSeconds
//	deadLetterQueue            NONE: dead letters are always kept
//	dlqAfterMaxRetries         NONE: likewise
//
// Those without effect stay so on purpose: clients send them, or rely on their
// defaults (a ttl of one hour), without meaning that messages be lost.
//
// maxSize counts what is stored and not yet passed by every group that reads the
// partition; all that is stored while no group does. A request that does not fit is
// refused as a whole, with 429. One instance never exceeds it. Each looks again
// every 5 to 100 ms, so several together exceed it by what the others stored since
// the last look, which is never more than the room there was at that look for each
// of them but one. A repetition of a push that was stored is refused too while the
// queue is full.
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

// MaxRetryBackoff caps what RetryBackoff grows to; one that is longer from the
// start stays as it is.
const MaxRetryBackoff = time.Hour

// MaxPushDelay bounds how far in the future a pushed message may become visible.
const MaxPushDelay = 365 * 24 * time.Hour

// Extensions are options that Belfry adds, and what makes old ones real. The zero
// value is what a queue has that was told nothing: none of them has an effect.
type Extensions struct {
	// RetryBackoff is retryDelay if the caller sent it, else 0. After a failed ack
	// that leads to a redelivery the partition rests for this long, and twice as
	// long after each further failure, up to MaxRetryBackoff, 20 % more or less at
	// random. The status retry and the end of a lease delay nothing. Milliseconds.
	RetryBackoff int64
	// ExpireAfterSeconds: messages older than this are not delivered any more. The
	// next pop passes over them and counts them in belfry_messages_expired_total,
	// unless a sweep comes first (pkg/sweep); what is leased may still be
	// acknowledged. 0: off.
	ExpireAfterSeconds int64
	// DeadLetterExpired: expired messages are dead-lettered.
	DeadLetterExpired bool
	// MaxDeliveries bounds how often a message is delivered, whatever ended the
	// deliveries: a failed ack, a retry, or the end of the lease because a consumer
	// crashed. Then it is dead-lettered. A delivery that did not reach its client
	// does not count, nor one with autoAck. Before the last attempt the messages of
	// a batch whose lease ended are delivered one by one, so that only the one that
	// kills its consumers is dead-lettered. Of a redriven message the deliveries
	// since it was put back count. 0: off; 1: always one by one.
	MaxDeliveries int64
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
