package dispatch

import (
	"errors"
	"time"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/process/backoff"
)

// fallbackJitter is the largest share by which a fallback delay is shortened at random. It keeps many waiters from probing at the
// same time.
const fallbackJitter = 0.2

// Config is the section "dispatch". config/belfry.yaml describes its keys.
type Config struct {
	MaxIntentions       int           `mapstructure:"max_intentions"`
	PollWorkers         int           `mapstructure:"poll_workers"`
	PollInterval        time.Duration `mapstructure:"poll_interval"`
	MaxPollInterval     time.Duration `mapstructure:"max_poll_interval"`
	FallbackInterval    time.Duration `mapstructure:"fallback_interval"`
	BackoffThreshold    int           `mapstructure:"backoff_threshold"`
	BackoffMultiplier   float64       `mapstructure:"backoff_multiplier"`
	BackoffCleanup      time.Duration `mapstructure:"backoff_cleanup"`
	UsePriorityDispatch bool          `mapstructure:"use_priority_dispatch"`
}

// At most MaxIntentions/refusalDivisor requests have a delayed refusal at the same time.
const refusalDivisor = 10

// maxDelayedRefusals returns the maximum number of refused requests whose answer is delayed.
func (c Config) maxDelayedRefusals() int { return max(1, c.MaxIntentions/refusalDivisor) }

// MostRequests returns the maximum number of requests that wait or have a delayed refusal. Each of these requests uses a
// connection of its client.
func (c Config) MostRequests() int { return c.MaxIntentions + c.maxDelayedRefusals() }

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

// SmartPoll is the section "smart_poll", which has the limits of the preflights. config/belfry.yaml describes its keys.
type SmartPoll struct {
	PreflightTimeout time.Duration `mapstructure:"preflight_timeout"`
	MaxIntentions    int           `mapstructure:"max_intentions"`
	MinInterval      time.Duration `mapstructure:"min_interval"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		MaxIntentions: 25_000, PollWorkers: 2, PollInterval: 100 * time.Millisecond,
		MaxPollInterval: 2 * time.Second, FallbackInterval: 5 * time.Minute,
		BackoffThreshold: 1, BackoffMultiplier: 2, BackoffCleanup: time.Hour, UsePriorityDispatch: true,
	}
}

// DefaultSmartPoll returns the values of config/belfry.yaml.
func DefaultSmartPoll() SmartPoll {
	return SmartPoll{PreflightTimeout: 50 * time.Millisecond, MaxIntentions: 200}
}

// Validate returns the joined errors of all invalid values.
func (c Config) Validate() error {
	return errors.Join(
		setting.AtLeast("dispatch.max_intentions", c.MaxIntentions, 1),
		setting.AtLeast("dispatch.poll_workers", c.PollWorkers, 1),
		setting.AtLeast("dispatch.backoff_threshold", c.BackoffThreshold, 1),
		setting.Positive("dispatch.poll_interval", c.PollInterval),
		setting.Positive("dispatch.fallback_interval", c.FallbackInterval),
		setting.Positive("dispatch.backoff_cleanup", c.BackoffCleanup),
		setting.Check(c.MaxPollInterval >= c.PollInterval, "dispatch.max_poll_interval is %s: it must not be below dispatch.poll_interval (%s)",
			c.MaxPollInterval, c.PollInterval),
		setting.Check(c.BackoffMultiplier >= 1, "dispatch.backoff_multiplier is %g: it must be at least 1", c.BackoffMultiplier),
	)
}

// Validate returns the joined errors of all invalid values.
func (c SmartPoll) Validate() error {
	return errors.Join(
		setting.Check(c.PreflightTimeout >= time.Millisecond, "smart_poll.preflight_timeout is %s: it must be at least 1ms", c.PreflightTimeout),
		setting.AtLeast("smart_poll.max_intentions", c.MaxIntentions, 1),
		setting.Check(c.MinInterval >= 0, "smart_poll.min_interval is %s: it must not be negative", c.MinInterval),
	)
}
