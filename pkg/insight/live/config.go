package live

import (
	"errors"
	"time"

	"github.com/belfry-mq/belfry/config/setting"
)

// Config is the section "live". config/belfry.yaml describes its keys.
type Config struct {
	MaxWatchers          int           `mapstructure:"max_watchers"`
	DeadLettersThreshold int           `mapstructure:"dead_letters_threshold"`
	ReadInterval         time.Duration `mapstructure:"read_interval"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{MaxWatchers: 100, DeadLettersThreshold: 1, ReadInterval: 5 * time.Second}
}

// Validate returns the joined errors of all invalid values.
func (c Config) Validate() error {
	return errors.Join(
		setting.AtLeast("live.max_watchers", c.MaxWatchers, 0),
		setting.Check(c.DeadLettersThreshold >= 0 && c.DeadLettersThreshold <= 10_000, "live.dead_letters_threshold is %d: it must be from 0 to 10000", c.DeadLettersThreshold),
		setting.Check(c.ReadInterval >= time.Second, "live.read_interval is %s: it must be at least 1s", c.ReadInterval),
	)
}
