package httpapi

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Config is the section "http".
type Config struct {
	// Addr is the listen address, host:port; an empty host means all.
	Addr string `mapstructure:"addr"`
	// MaxBodyBytes bounds a request body; a larger one gets 413.
	MaxBodyBytes int64 `mapstructure:"max_body_bytes"`
	// MaxResponseBytes bounds the answer of a pop, which has at least one message.
	MaxResponseBytes int64 `mapstructure:"max_response_bytes"`
	// ShutdownTimeout bounds how long a stop waits for requests in flight.
	ShutdownTimeout time.Duration `mapstructure:"shutdown_timeout"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{Addr: ":6632", MaxBodyBytes: 16 << 20, MaxResponseBytes: 16 << 20, ShutdownTimeout: 10 * time.Second}
}

// Validate returns an error that lists every invalid value.
func (c Config) Validate() error {
	errs := []error{c.checkAddr()}
	if c.MaxBodyBytes < 1024 {
		errs = append(errs, fmt.Errorf("http.max_body_bytes is %d: it must be at least 1024", c.MaxBodyBytes))
	}
	if c.MaxResponseBytes < 1024 || c.MaxResponseBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("http.max_response_bytes is %d: it must be from 1024 to 1GiB", c.MaxResponseBytes))
	}
	if c.ShutdownTimeout <= 0 {
		errs = append(errs, fmt.Errorf("http.shutdown_timeout is %s: it must be positive", c.ShutdownTimeout))
	}
	return errors.Join(errs...)
}

// checkAddr refuses an address that Listen would refuse. Listen runs only after the
// migrations of the database.
func (c Config) checkAddr() error {
	_, port, err := net.SplitHostPort(c.Addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("http.addr is %q: it must be host:port or :port, with a number as port and an IPv6 host in brackets", c.Addr)
	}
	return nil
}
