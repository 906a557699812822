package listen

import (
	"errors"
	"time"

	"github.com/belfry-mq/belfry/config/setting"
)

// Config is the section "listen". config/belfry.yaml describes its keys.
type Config struct {
	CanaryInterval time.Duration `mapstructure:"canary_interval"`
	CanaryTimeout  time.Duration `mapstructure:"canary_timeout"` // counted from the commit of the canary
	PeerTimeout    time.Duration `mapstructure:"peer_timeout"`
	NotifyInterval time.Duration `mapstructure:"notify_interval"`
	StopTimeout    time.Duration `mapstructure:"stop_timeout"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		CanaryInterval: 10 * time.Second, CanaryTimeout: 5 * time.Second, PeerTimeout: 15 * time.Second,
		NotifyInterval: 10 * time.Millisecond, StopTimeout: 2 * time.Second,
	}
}

// Validate returns one error that names every invalid value.
func (c Config) Validate() error {
	return errors.Join(
		setting.Positive("listen.canary_interval", c.CanaryInterval),
		setting.Positive("listen.canary_timeout", c.CanaryTimeout),
		setting.Positive("listen.notify_interval", c.NotifyInterval),
		setting.Positive("listen.stop_timeout", c.StopTimeout),
		setting.Check(c.PeerTimeout > c.CanaryInterval, "listen.peer_timeout is %s: it must be above listen.canary_interval (%s), "+
			"or healthy instances count as silent", c.PeerTimeout, c.CanaryInterval),
	)
}
