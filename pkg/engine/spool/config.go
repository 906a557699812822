package spool

import (
	"errors"

	"github.com/belfry-mq/belfry/config/setting"
)

// Config is the section "spool" of the configuration.
type Config struct {
	// Dir is the directory of the spool file. The spool creates it when it first needs it.
	Dir string `mapstructure:"dir"`
	// MaxBytes bounds the size of the messages in the spool.
	MaxBytes int64 `mapstructure:"max_bytes"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config { return Config{Dir: "/var/lib/belfry/spool", MaxBytes: 1 << 30} }

// Validate returns one error that names every invalid value.
func (c Config) Validate() error {
	return errors.Join(
		setting.Check(c.Dir != "", "spool.dir is empty: it must name a directory"),
		setting.Check(c.MaxBytes > 0, "spool.max_bytes is %d: it must be positive", c.MaxBytes),
	)
}
