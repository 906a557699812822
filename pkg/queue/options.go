package queue

import (
	"errors"
	"fmt"
	"time"
)

// Options are the fifteen options of a queue, as POST /api/v1/configure accepts and echoes them. docs/concepts.md has a table of
// their effects. Durations are whole seconds on the wire. Only the delays of retries are in milliseconds.
//
// All options are stored and echoed. A change takes effect at once on all instances. ttl, deadLetterQueue and dlqAfterMaxRetries
// have no effect. Clients of Queen MQ send them, or rely on their defaults, such as a ttl of one hour. These clients must not
// lose messages in Belfry.
//
// maxSize works as follows:
//
//  1. In each partition, the messages count that at least one group reading the partition has not passed. While no group reads
//     the partition, all its messages count.
//  2. A push request that would exceed maxSize is refused as a whole, with 429. While the queue is full, a repeated push is
//     refused too, even if its messages are stored.
//  3. If only one instance runs, the queue never exceeds maxSize.
//  4. While messages are pushed, each instance repeats the count after 5 ms to 1 s. While no group reads the whole queue, each
//     instance repeats the count after up to 1 minute. Between its counts an instance does not see the messages that other
//     instances store. So n instances can exceed maxSize by n-1 times the free space at the last count.
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
	// RetryDelay is how many milliseconds a partition is not poppable after a failed ack that leads to a redelivery. The delay
	// varies by 20 % at random. It grows as RetryBackoff and RetryDelayMax say. 0: no delay. The status "retry" and the end of a
	// lease cause no delay.
	RetryDelay         int64 `json:"retryDelay"`
	TTL                int64 `json:"ttl"`
	DeadLetterQueue    bool  `json:"deadLetterQueue"`
	DLQAfterMaxRetries bool  `json:"dlqAfterMaxRetries"`
}

// Extensions are the options that Belfry adds to the fifteen. The zero value
// switches all of them off. Defaults.Extensions has the options of a new queue.
type Extensions struct {
	// RetryBackoff is the factor by which the delay grows with each further failure. 0 and 1: the delay does not grow.
	RetryBackoff int64
	// RetryDelayMax is the limit of the growing delay in milliseconds. A RetryDelay above this limit does not grow.
	RetryDelayMax int64
	// ExpireAfterSeconds: messages older than this number of seconds are no longer delivered. 0: off. A sweep deletes expired
	// messages (pkg/engine/sweep). A pop that finds them before the sweep skips them, and counts them in
	// belfry_messages_expired_total. A consumer can still acknowledge an expired message whose lease it has.
	ExpireAfterSeconds int64
	// DeadLetterExpired: expired messages become dead letters.
	DeadLetterExpired bool
	// MaxDeliveries is how often a message is delivered before it is dead-lettered.
	// 0: off. 1: messages are always delivered one by one.
	//
	// A delivery counts if it ends with a failed ack, with a retry, or with the end of the lease after a crash of the consumer. A
	// delivery that did not reach its client does not count. A delivery with autoAck does not count. For a redriven message only
	// the deliveries after the redrive count.
	//
	// Before the last attempt, the messages of a batch whose lease ended are
	// delivered one by one. So only the message that crashes its consumers is
	// dead-lettered.
	MaxDeliveries int64
	// TenantDelimiter: the name of a new partition up to this text is the tenant of the partition. A name without the text is the
	// tenant as a whole. Empty: off.
	TenantDelimiter string
}

// Defaults are the values of options that a queue or a request does not set. The configuration section "defaults" sets them.
type Defaults struct {
	// LeaseTime is the lease duration of a queue.
	LeaseTime time.Duration `mapstructure:"lease_time"`
	// RetryLimit is how often a failed batch of a queue is redelivered before its
	// messages are dead-lettered.
	RetryLimit int64 `mapstructure:"retry_limit"`
	// RetryDelay is how long a partition is not poppable after a failure. The delay grows by the factor RetryBackoff with each
	// further failure, up to RetryDelayMax. 0: no delay.
	RetryDelay    time.Duration `mapstructure:"retry_delay"`
	RetryBackoff  int64         `mapstructure:"retry_backoff"`
	RetryDelayMax time.Duration `mapstructure:"retry_delay_max"`
	// PopTimeout is how long a pop with wait=true waits.
	PopTimeout time.Duration `mapstructure:"pop_timeout"`
	// PopBatchSize is the batch size of a pop.
	PopBatchSize int `mapstructure:"pop_batch_size"`
	// SubscriptionMode is the subscription mode of a pop: "" or "all", or "new".
	SubscriptionMode string `mapstructure:"subscription_mode"`
}

// DefaultDefaults returns the values of config/belfry.yaml.
func DefaultDefaults() Defaults {
	return Defaults{
		LeaseTime: 300 * time.Second, RetryLimit: 7,
		RetryDelay: time.Second, RetryBackoff: 2, RetryDelayMax: time.Minute,
		PopTimeout: 30 * time.Second, PopBatchSize: 1,
	}
}

// Validate returns one error that names every invalid value.
func (d Defaults) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(d.LeaseTime >= time.Second, "defaults.lease_time is %s: it must be at least 1s", d.LeaseTime)
	check(d.RetryLimit >= 0, "defaults.retry_limit is %d: it must not be negative", d.RetryLimit)
	check(d.RetryDelay >= 0, "defaults.retry_delay is %s: it must not be negative", d.RetryDelay)
	check(d.RetryBackoff >= 1, "defaults.retry_backoff is %d: it must be at least 1", d.RetryBackoff)
	check(d.RetryDelayMax >= d.RetryDelay, "defaults.retry_delay_max is %s: it must be at least defaults.retry_delay, %s", d.RetryDelayMax, d.RetryDelay)
	check(d.PopTimeout > 0, "defaults.pop_timeout is %s: it must be positive", d.PopTimeout)
	check(d.PopBatchSize >= 1, "defaults.pop_batch_size is %d: it must be at least 1", d.PopBatchSize)
	check(d.SubscriptionMode == "" || d.SubscriptionMode == "all" || d.SubscriptionMode == "new",
		"defaults.subscription_mode is %q: it must be empty, all or new", d.SubscriptionMode)
	return errors.Join(errs...)
}

// Options returns the options of a queue for which no option was set.
func (d Defaults) Options() Options {
	return Options{
		LeaseTime: int64(d.LeaseTime / time.Second), RetryLimit: d.RetryLimit,
		RetryDelay: d.RetryDelay.Milliseconds(), TTL: 3600,
	}
}

// Extensions returns the Extensions of a queue for which no option was set.
func (d Defaults) Extensions() Extensions {
	return Extensions{RetryBackoff: d.RetryBackoff, RetryDelayMax: d.RetryDelayMax.Milliseconds()}
}
