package sweep

import (
	"errors"
	"fmt"
	"time"
)

const (
	// maxBatch bounds the batch sizes: a step holds the locks of its partition.
	maxBatch = 100_000
	// maxDays keeps an instant that many days ago within what a date can say.
	maxDays = 36500
	// leastInterval keeps the sweeps from asking all the time.
	leastInterval = 100 * time.Millisecond
)

// Config is the section "sweep".
type Config struct {
	// RetentionInterval is the pause between two looks for messages that are too
	// old, or completed for long enough.
	RetentionInterval time.Duration `mapstructure:"retention_interval"`
	// RetentionBatchSize is how many of them one transaction deletes.
	RetentionBatchSize int `mapstructure:"retention_batch_size"`
	// EvictionInterval is the pause between two looks for messages that waited
	// too long, or expired.
	EvictionInterval time.Duration `mapstructure:"eviction_interval"`
	// EvictionBatchSize is how many of them one transaction takes.
	EvictionBatchSize int `mapstructure:"eviction_batch_size"`
	// PartitionCleanupDays is after how many days without a push an empty
	// partition is removed; 0: never.
	PartitionCleanupDays int `mapstructure:"partition_cleanup_days"`
	// PartitionCleanupInterval is the pause between two looks for such partitions.
	PartitionCleanupInterval time.Duration `mapstructure:"partition_cleanup_interval"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		RetentionInterval: 5 * time.Minute, RetentionBatchSize: 1000,
		EvictionInterval: time.Minute, EvictionBatchSize: 1000, PartitionCleanupDays: 30,
		PartitionCleanupInterval: time.Hour,
	}
}

// Validate names every value that cannot work.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"retention_interval", c.RetentionInterval}, {"eviction_interval", c.EvictionInterval},
		{"partition_cleanup_interval", c.PartitionCleanupInterval},
	} {
		if d.value < leastInterval {
			errs = append(errs, fmt.Errorf("sweep.%s is %s: it must be at least %s", d.key, d.value, leastInterval))
		}
	}
	for _, n := range []struct {
		key                string
		value, least, most int
	}{
		{"retention_batch_size", c.RetentionBatchSize, 1, maxBatch}, {"eviction_batch_size", c.EvictionBatchSize, 1, maxBatch},
		{"partition_cleanup_days", c.PartitionCleanupDays, 0, maxDays},
	} {
		if n.value < n.least || n.value > n.most {
			errs = append(errs, fmt.Errorf("sweep.%s is %d: it must be from %d to %d", n.key, n.value, n.least, n.most))
		}
	}
	return errors.Join(errs...)
}
