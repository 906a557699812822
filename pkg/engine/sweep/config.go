package sweep

import (
	"errors"
	"fmt"
	"time"
)

const (
	// maxBatch bounds the batch sizes, because a step holds the locks of its partition.
	maxBatch = 100_000
	// maxDays bounds numbers of days, so that a time that many days ago is in the range of
	// timestamptz.
	maxDays = 36500
	// minInterval bounds the load of a job that finds nothing to do.
	minInterval = 100 * time.Millisecond
)

// Config is the section "sweep" of the configuration.
type Config struct {
	// RetentionInterval is the time between two runs of the job retention.
	RetentionInterval time.Duration `mapstructure:"retention_interval"`
	// RetentionBatchSize is the maximum number of messages that one transaction of retention
	// deletes.
	RetentionBatchSize int `mapstructure:"retention_batch_size"`
	// EvictionInterval is the time between two runs of the job eviction.
	EvictionInterval time.Duration `mapstructure:"eviction_interval"`
	// EvictionBatchSize is the maximum number of messages that one transaction of eviction deletes
	// or moves cursors past.
	EvictionBatchSize int `mapstructure:"eviction_batch_size"`
	// PartitionCleanupDays is the number of days without a push after which an empty partition is
	// removed. 0 turns the job off.
	PartitionCleanupDays int `mapstructure:"partition_cleanup_days"`
	// PartitionCleanupInterval is the time between two runs of the job partitions.
	PartitionCleanupInterval time.Duration `mapstructure:"partition_cleanup_interval"`
	// CompletedRetention and DeadLetterRetention are for queues without retentionEnabled: how long they keep
	// messages that every group has consumed, and dead letters. 0 means for ever. Their values come from the
	// section retention.
	CompletedRetention, DeadLetterRetention time.Duration
	// AuditRetention is how long an audit row is kept (audit.retention). 0 turns the job off.
	AuditRetention time.Duration
	// HistoryRetention is how long a row of the history is kept (history.retention). 0 keeps all
	// rows.
	HistoryRetention time.Duration
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		RetentionInterval: 5 * time.Minute, RetentionBatchSize: 1000,
		EvictionInterval: time.Minute, EvictionBatchSize: 1000, PartitionCleanupDays: 30,
		PartitionCleanupInterval: time.Hour,
	}
}

// Retention is the section "retention" of the configuration.
type Retention struct {
	// Completed is how long a message is kept after every group has consumed it. 0 means for ever.
	Completed time.Duration `mapstructure:"completed"`
	// DeadLetters is how long a dead letter is kept. 0 means for ever.
	DeadLetters time.Duration `mapstructure:"dead_letters"`
}

// DefaultRetention returns the values of config/belfry.yaml.
func DefaultRetention() Retention {
	return Retention{Completed: 168 * time.Hour, DeadLetters: 720 * time.Hour}
}

// String returns the values as a sentence for the log.
func (r Retention) String() string {
	keep := func(d time.Duration) string {
		if d == 0 {
			return "for ever"
		}
		return "for " + d.String()
	}
	return fmt.Sprintf("queues without retentionEnabled keep messages %s after every group has consumed them (retention.completed), and dead letters %s (retention.dead_letters)",
		keep(r.Completed), keep(r.DeadLetters))
}

// Validate returns an error that names every invalid value.
func (r Retention) Validate() error {
	var errs []error
	check := func(key string, d time.Duration) {
		if d != 0 && d < time.Second || d > maxDays*24*time.Hour {
			errs = append(errs, fmt.Errorf("retention.%s is %s: it must be 0, which keeps for ever, or from 1s to 876000h", key, d))
		}
	}
	check("completed", r.Completed)
	check("dead_letters", r.DeadLetters)
	return errors.Join(errs...)
}

// Validate returns an error that names every invalid value.
func (c Config) Validate() error {
	var errs []error
	interval := func(key string, d time.Duration) {
		if d < minInterval {
			errs = append(errs, fmt.Errorf("sweep.%s is %s: it must be at least %s", key, d, minInterval))
		}
	}
	number := func(key string, n, minimum, maximum int) {
		if n < minimum || n > maximum {
			errs = append(errs, fmt.Errorf("sweep.%s is %d: it must be from %d to %d", key, n, minimum, maximum))
		}
	}
	interval("retention_interval", c.RetentionInterval)
	interval("eviction_interval", c.EvictionInterval)
	interval("partition_cleanup_interval", c.PartitionCleanupInterval)
	number("retention_batch_size", c.RetentionBatchSize, 1, maxBatch)
	number("eviction_batch_size", c.EvictionBatchSize, 1, maxBatch)
	number("partition_cleanup_days", c.PartitionCleanupDays, 0, maxDays)
	return errors.Join(errs...)
}
