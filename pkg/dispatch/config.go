package dispatch

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section "dispatch".
type Config struct {
	// MaxIntentions bounds the waiting requests; one more gets 503.
	MaxIntentions int `mapstructure:"max_intentions"`
	// PollInterval is the first delay between two looks of a waiting request.
	PollInterval time.Duration `mapstructure:"poll_interval"`
	// MaxPollInterval caps that delay.
	MaxPollInterval time.Duration `mapstructure:"max_poll_interval"`
	// BackoffThreshold is how many empty looks happen at PollInterval before
	// the delay grows.
	BackoffThreshold int `mapstructure:"backoff_threshold"`
	// BackoffMultiplier is what the delay grows by after each further one.
	BackoffMultiplier float64 `mapstructure:"backoff_multiplier"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		MaxIntentions: 10000, PollInterval: 100 * time.Millisecond,
		MaxPollInterval: 2 * time.Second, BackoffThreshold: 1, BackoffMultiplier: 2,
	}
}

// Validate names every value that cannot work.
func (c Config) Validate() error {
	var errs []error
	if c.MaxIntentions < 1 {
		errs = append(errs, fmt.Errorf("dispatch.max_intentions is %d: it must be at least 1", c.MaxIntentions))
	}
	if c.PollInterval <= 0 {
		errs = append(errs, fmt.Errorf("dispatch.poll_interval is %s: it must be positive", c.PollInterval))
	}
	if c.MaxPollInterval < c.PollInterval {
		errs = append(errs, fmt.Errorf("dispatch.max_poll_interval is %s: it must not be below dispatch.poll_interval (%s)",
			c.MaxPollInterval, c.PollInterval))
	}
	if c.BackoffThreshold < 1 {
		errs = append(errs, fmt.Errorf("dispatch.backoff_threshold is %d: it must be at least 1", c.BackoffThreshold))
	}
	if c.BackoffMultiplier < 1 {
		errs = append(errs, fmt.Errorf("dispatch.backoff_multiplier is %g: it must be at least 1", c.BackoffMultiplier))
	}
	return errors.Join(errs...)
}
