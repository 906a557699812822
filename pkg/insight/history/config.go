package history

import (
	"fmt"
	"time"
)

const (
	// minRetention is longer than the longest range that the dashboard shows.
	minRetention = 48 * time.Hour
	// maxRetention is 100 years. timestamptz can represent an instant that long ago.
	maxRetention = 36500 * 24 * time.Hour
)

// Config is the section "history" of the configuration.
type Config struct {
	// Enabled is true if the instance writes its counts to Postgres.
	Enabled bool `mapstructure:"enabled"`
	// Retention is how long Belfry keeps a row. 0 keeps all rows.
	Retention time.Duration `mapstructure:"retention"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config { return Config{Enabled: true, Retention: 90 * 24 * time.Hour} }

// Validate returns an error for an invalid value.
func (c Config) Validate() error {
	if c.Retention != 0 && (c.Retention < minRetention || c.Retention > maxRetention) {
		return fmt.Errorf("history.retention is %s: it must be 0 or from %s to %s", c.Retention, minRetention, maxRetention)
	}
	return nil
}
