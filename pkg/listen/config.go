package listen

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section "listen".
type Config struct {
	// CanaryInterval is how often an instance notifies itself. The other instances hear
	// these canaries as its heartbeat.
	CanaryInterval time.Duration `mapstructure:"canary_interval"`
	// CanaryTimeout is how long after its commit a canary must be heard. After it the
	// listener cuts the connection and connects again.
	CanaryTimeout time.Duration `mapstructure:"canary_timeout"`
	// PeerTimeout is how long another instance may be silent before its hints count as
	// missed.
	PeerTimeout time.Duration `mapstructure:"peer_timeout"`
	// NotifyInterval is the shortest time between two notifying commits.
	NotifyInterval time.Duration `mapstructure:"notify_interval"`
	// StopTimeout bounds the last flush of a sender that stops.
	StopTimeout time.Duration `mapstructure:"stop_timeout"`
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
	var errs []error
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"canary_interval", c.CanaryInterval},
		{"canary_timeout", c.CanaryTimeout},
		{"notify_interval", c.NotifyInterval},
		{"stop_timeout", c.StopTimeout},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("listen.%s is %s: it must be positive", d.key, d.value))
		}
	}
	if c.PeerTimeout <= c.CanaryInterval {
		errs = append(errs, fmt.Errorf("listen.peer_timeout is %s: it must be above listen.canary_interval (%s), "+
			"or healthy instances count as silent", c.PeerTimeout, c.CanaryInterval))
	}
	return errors.Join(errs...)
}
