package live

import (
	"errors"
	"time"

	"github.com/belfry-mq/belfry/config/setting"
)

// maxThreshold is 100 years. An instant plus maxThreshold is within the range of timestamptz.
const maxThreshold = 36500 * 24 * time.Hour

// Config is the section "live". config/belfry.yaml describes its keys.
type Config struct {
	MaxWatchers          int           `mapstructure:"max_watchers"`
	LagThreshold         time.Duration `mapstructure:"lag_threshold"`
	DeadLettersThreshold int           `mapstructure:"dead_letters_threshold"`
	ReadInterval         time.Duration `mapstructure:"read_interval"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{MaxWatchers: 100, LagThreshold: time.Minute, DeadLettersThreshold: 1, ReadInterval: 5 * time.Second}
}

// Validate returns the joined errors of all invalid values.
func (c Config) Validate() error {
	return errors.Join(
		setting.AtLeast("live.max_watchers", c.MaxWatchers, 0),
		setting.Check(c.LagThreshold >= 0 && c.LagThreshold <= maxThreshold, "live.lag_threshold is %s: it must be from 0 to %s", c.LagThreshold, maxThreshold),
		setting.Check(c.DeadLettersThreshold >= 0 && c.DeadLettersThreshold <= 10_000, "live.dead_letters_threshold is %d: it must be from 0 to 10000", c.DeadLettersThreshold),
		setting.Check(c.ReadInterval >= time.Second, "live.read_interval is %s: it must be at least 1s", c.ReadInterval),
	)
}
