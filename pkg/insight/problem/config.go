package problem

import (
	"time"

	"github.com/belfry-mq/belfry/config/setting"
)

// maxLateAfter is 100 years. An instant plus maxLateAfter is within the range of timestamptz.
const maxLateAfter = 36500 * 24 * time.Hour

// Config is the section "problems". config/belfry.yaml describes its keys.
type Config struct {
	// LateAfter is from which age on an unfinished message makes its group late. The message is due or in delivery. A queue
	// with maxWaitTimeSeconds has half of that instead. At 0, only groups of such queues can be late. The rule is
	// belfry.late_after in SQL. Problems, lists of queues and groups, events, metrics and the doctor use it.
	LateAfter time.Duration `mapstructure:"late_after"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config { return Config{LateAfter: time.Minute} }

// Validate returns an error for an invalid value.
func (c Config) Validate() error {
	return setting.Check(c.LateAfter >= 0 && c.LateAfter <= maxLateAfter, "problems.late_after is %s: it must be from 0 to %s", c.LateAfter, maxLateAfter)
}
