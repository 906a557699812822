package queue

import (
	"errors"
	"fmt"
	"time"
)

// Defaults are the values for queues and requests that do not set their own:
// config section "defaults".
type Defaults struct {
	// LeaseTime is the lease duration of a queue.
	LeaseTime time.Duration `mapstructure:"lease_time"`
	// RetryLimit is how often a failed batch of a queue is redelivered before its
	// messages are dead-lettered.
	RetryLimit int64 `mapstructure:"retry_limit"`
	// RetryDelay is how long a partition rests after a failure. It is RetryBackoff times as long after
	// each further failure, up to RetryDelayMax. 0: no delay.
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

// Options returns the options of a queue that was configured without any.
func (d Defaults) Options() Options {
	return Options{
		LeaseTime: int64(d.LeaseTime / time.Second), RetryLimit: d.RetryLimit,
		RetryDelay: d.RetryDelay.Milliseconds(), TTL: 3600,
	}
}

// Extensions returns the options of Belfry's own of a queue that was configured without any.
func (d Defaults) Extensions() Extensions {
	return Extensions{RetryBackoff: d.RetryBackoff, RetryDelayMax: d.RetryDelayMax.Milliseconds()}
}
