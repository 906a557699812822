package batch

import (
	"errors"
	"time"

	"github.com/belfry-mq/belfry/config/setting"
)

// Config is the section "batch". config/belfry.yaml describes its keys. All sizes have the unit of
// the size that the caller passes to Manager.Do.
type Config struct {
	MaxSize        int           `mapstructure:"max_size"`
	MaxWait        time.Duration `mapstructure:"max_wait"`
	QueueSize      int           `mapstructure:"queue_size"`
	MaxFlushes     int           `mapstructure:"max_flushes"`
	ConcurrentSize int           `mapstructure:"beside_size"`
	Retries        int           `mapstructure:"retries"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{MaxSize: 500, QueueSize: 10000, MaxFlushes: 4, ConcurrentSize: 50, Retries: 3}
}

// Validate returns one error that names every invalid value.
func (c Config) Validate() error {
	return errors.Join(
		setting.AtLeast("batch.max_size", c.MaxSize, 1),
		setting.AtLeast("batch.queue_size", c.QueueSize, 1),
		setting.AtLeast("batch.max_flushes", c.MaxFlushes, 1),
		setting.AtLeast("batch.beside_size", c.ConcurrentSize, 1),
		setting.AtLeast("batch.retries", c.Retries, 0),
		setting.Check(c.MaxWait >= 0, "batch.max_wait is %s: it must not be negative", c.MaxWait),
	)
}
