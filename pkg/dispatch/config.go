package dispatch

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfry-mq/belfry/pkg/backoff"
)

// fallbackJitter is the share by which a fallback is shortened at most. It keeps many waiters from
// probing at the same time.
const fallbackJitter = 0.2

// Config is the section "dispatch".
type Config struct {
	// MaxIntentions bounds the waiting requests. One more gets 503.
	MaxIntentions int `mapstructure:"max_intentions"`
	// PollWorkers is how many preflight rounds run at a time.
	PollWorkers int `mapstructure:"poll_workers"`
	// PollInterval is the first fallback delay of a group while the listener is not proven.
	PollInterval time.Duration `mapstructure:"poll_interval"`
	// MaxPollInterval is the longest such delay.
	MaxPollInterval time.Duration `mapstructure:"max_poll_interval"`
	// FallbackInterval is the fallback delay while the listener is proven.
	FallbackInterval time.Duration `mapstructure:"fallback_interval"`
	// BackoffThreshold is how many empty probes happen at PollInterval before the delay grows.
	BackoffThreshold int `mapstructure:"backoff_threshold"`
	// BackoffMultiplier is the factor by which the delay grows after each further empty probe.
	BackoffMultiplier float64 `mapstructure:"backoff_multiplier"`
	// BackoffCleanup is how long the backoff of an idle group is remembered.
	BackoffCleanup time.Duration `mapstructure:"backoff_cleanup"`
	// UsePriorityDispatch gives woken pops connections of their own.
	UsePriorityDispatch bool `mapstructure:"use_priority_dispatch"`
}

// Backoff is the delay between probes while the listener is not proven.
func (c Config) Backoff() backoff.Policy {
	return backoff.Policy{
		Initial: c.PollInterval, Max: c.MaxPollInterval, Threshold: c.BackoffThreshold, Multiplier: c.BackoffMultiplier,
	}
}

// Fallback is the delay before a probe without a wake while the listener is proven.
func (c Config) Fallback() backoff.Policy {
	return backoff.Policy{Initial: c.FallbackInterval, Max: c.FallbackInterval, Multiplier: 1, Jitter: fallbackJitter}
}

// SmartPoll is the section "smart_poll": the preflight rounds.
type SmartPoll struct {
	// PreflightTimeout bounds a preflight on the server. A preflight that exceeds it is counted and
	// logged, and the next one has twice the time.
	PreflightTimeout time.Duration `mapstructure:"preflight_timeout"`
	// MaxIntentions bounds the requests of one round.
	MaxIntentions int `mapstructure:"max_intentions"`
	// MinInterval is the least time between two rounds of a worker.
	MinInterval time.Duration `mapstructure:"min_interval"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		MaxIntentions: 10000, PollWorkers: 2, PollInterval: 100 * time.Millisecond,
		MaxPollInterval: 2 * time.Second, FallbackInterval: 5 * time.Minute,
		BackoffThreshold: 1, BackoffMultiplier: 2, BackoffCleanup: time.Hour, UsePriorityDispatch: true,
	}
}

// DefaultSmartPoll returns the values of config/belfry.yaml.
func DefaultSmartPoll() SmartPoll {
	return SmartPoll{PreflightTimeout: 50 * time.Millisecond, MaxIntentions: 200}
}

// Validate returns one error for each value that cannot work, joined.
func (c Config) Validate() error {
	return errors.Join(
		atLeast("dispatch.max_intentions", c.MaxIntentions, 1),
		atLeast("dispatch.poll_workers", c.PollWorkers, 1),
		atLeast("dispatch.backoff_threshold", c.BackoffThreshold, 1),
		positive("dispatch.poll_interval", c.PollInterval),
		positive("dispatch.fallback_interval", c.FallbackInterval),
		positive("dispatch.backoff_cleanup", c.BackoffCleanup),
		when(c.MaxPollInterval < c.PollInterval, "dispatch.max_poll_interval is %s: it must not be below dispatch.poll_interval (%s)",
			c.MaxPollInterval, c.PollInterval),
		when(c.BackoffMultiplier < 1, "dispatch.backoff_multiplier is %g: it must be at least 1", c.BackoffMultiplier),
	)
}

// Validate returns one error for each value that cannot work, joined.
func (c SmartPoll) Validate() error {
	return errors.Join(
		when(c.PreflightTimeout < time.Millisecond, "smart_poll.preflight_timeout is %s: it must be at least 1ms", c.PreflightTimeout),
		atLeast("smart_poll.max_intentions", c.MaxIntentions, 1),
		when(c.MinInterval < 0, "smart_poll.min_interval is %s: it must not be negative", c.MinInterval),
	)
}

func atLeast(key string, value, least int) error {
	return when(value < least, "%s is %d: it must be at least %d", key, value, least)
}

func positive(key string, d time.Duration) error {
	return when(d <= 0, "%s is %s: it must be positive", key, d)
}

func when(bad bool, format string, args ...any) error {
	if !bad {
		return nil
	}
	return fmt.Errorf(format, args...)
}
