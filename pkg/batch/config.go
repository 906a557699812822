package batch

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section "batch".
type Config struct {
	// MaxSize bounds a batch, in the unit of Op.Size. An operation that is larger
	// goes alone.
	MaxSize int `mapstructure:"max_size"`
	// MaxWait is how long a batch that is not full waits for company; 0: not at
	// all.
	MaxWait time.Duration `mapstructure:"max_wait"`
	// QueueSize bounds what waits, in the unit of Op.Size; callers beyond it
	// block.
	QueueSize int `mapstructure:"queue_size"`
	// MaxFlushes bounds the batches in flight.
	MaxFlushes int `mapstructure:"max_flushes"`
	// ConcurrentSize is the size from which a batch leaves beside others that are in
	// flight; a smaller one waits for them, and grows.
	ConcurrentSize int `mapstructure:"beside_size"`
	// Retries is how often a batch that failed for a passing reason is sent
	// again.
	Retries int `mapstructure:"retries"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{MaxSize: 500, QueueSize: 10000, MaxFlushes: 4, ConcurrentSize: 50, Retries: 3}
}

// Validate names every value that cannot work.
func (c Config) Validate() error {
	var errs []error
	for _, v := range []struct {
		key          string
		value, least int
	}{
		{"max_size", c.MaxSize, 1}, {"queue_size", c.QueueSize, 1}, {"max_flushes", c.MaxFlushes, 1}, {"beside_size", c.ConcurrentSize, 1}, {"retries", c.Retries, 0},
	} {
		if v.value < v.least {
			errs = append(errs, fmt.Errorf("batch.%s is %d: it must be at least %d", v.key, v.value, v.least))
		}
	}
	if c.MaxWait < 0 {
		errs = append(errs, fmt.Errorf("batch.max_wait is %s: it must not be negative", c.MaxWait))
	}
	return errors.Join(errs...)
}
