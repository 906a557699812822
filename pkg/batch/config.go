package batch

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section "batch". The unit of all sizes is the size that the caller
// passes to Manager.Do.
type Config struct {
	// MaxSize is the largest size of a batch. A larger operation is sent alone.
	MaxSize int `mapstructure:"max_size"`
	// MaxWait is how long a batch that is not full waits for more operations. 0: it
	// does not wait.
	MaxWait time.Duration `mapstructure:"max_wait"`
	// QueueSize is the largest size of the waiting operations. Further callers
	// block.
	QueueSize int `mapstructure:"queue_size"`
	// MaxFlushes is the most batches in flight.
	MaxFlushes int `mapstructure:"max_flushes"`
	// ConcurrentSize is the least size at which a batch leaves while others are in
	// flight. A smaller batch waits for them and grows.
	ConcurrentSize int `mapstructure:"beside_size"`
	// Retries is how often a batch is sent again after a transient error.
	Retries int `mapstructure:"retries"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{MaxSize: 500, QueueSize: 10000, MaxFlushes: 4, ConcurrentSize: 50, Retries: 3}
}

// Validate returns one error that names every invalid value.
func (c Config) Validate() error {
	var errs []error
	for _, v := range []struct {
		key          string
		value, least int
	}{
		{"max_size", c.MaxSize, 1},
		{"queue_size", c.QueueSize, 1},
		{"max_flushes", c.MaxFlushes, 1},
		{"beside_size", c.ConcurrentSize, 1},
		{"retries", c.Retries, 0},
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
