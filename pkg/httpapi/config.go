package httpapi

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section "http".
type Config struct {
	// Addr is the listen address, host:port; an empty host means all.
	Addr string `mapstructure:"addr"`
	// MaxBodyBytes bounds a request body; a larger one gets 413.
	MaxBodyBytes int64 `mapstructure:"max_body_bytes"`
	// ShutdownTimeout bounds how long a stop waits for requests in flight.
	ShutdownTimeout time.Duration `mapstructure:"shutdown_timeout"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{Addr: ":6632", MaxBodyBytes: 16 << 20, ShutdownTimeout: 10 * time.Second}
}

// Validate names every value that cannot work.
func (c Config) Validate() error {
	var errs []error
	if c.Addr == "" {
		errs = append(errs, errors.New("http.addr is empty: it must be host:port or :port"))
	}
	if c.MaxBodyBytes < 1024 {
		errs = append(errs, fmt.Errorf("http.max_body_bytes is %d: it must be at least 1024", c.MaxBodyBytes))
	}
	if c.ShutdownTimeout <= 0 {
		errs = append(errs, fmt.Errorf("http.shutdown_timeout is %s: it must be positive", c.ShutdownTimeout))
	}
	return errors.Join(errs...)
}
