package postgres

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section "database".
type Config struct {
	// URL is the main DSN; it may go through a pooler.
	URL string `mapstructure:"url"`
	// ListenURL is a DSN without a pooler in transaction mode, for LISTEN, migrations
	// and the sequencer; empty means URL.
	ListenURL string `mapstructure:"listen_url"`
	// PoolSize bounds the connections of the pool.
	PoolSize int32 `mapstructure:"pool_size"`
	// StartTimeout is how long the server waits at start for a database that
	// does not accept connections yet.
	StartTimeout time.Duration `mapstructure:"start_timeout"`
	// RequestTimeout bounds the database work of one request: waiting for a
	// connection included. Beyond it the caller gets 503.
	RequestTimeout time.Duration `mapstructure:"request_timeout"`
	// MigrateOnStart makes the server bring the schema up to date first.
	MigrateOnStart bool `mapstructure:"migrate_on_start"`
	// MigrateLockTimeout is how long an instance waits for another one that is
	// migrating.
	MigrateLockTimeout time.Duration `mapstructure:"migrate_lock_timeout"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		PoolSize: 20, StartTimeout: 60 * time.Second, RequestTimeout: 5 * time.Second,
		MigrateOnStart: true, MigrateLockTimeout: 60 * time.Second,
	}
}

// DirectURL returns the DSN that does not go through a pooler.
func (c Config) DirectURL() string {
	if c.ListenURL != "" {
		return c.ListenURL
	}
	return c.URL
}

// Validate names every value that cannot work. An empty URL is allowed here:
// which commands need one is theirs to say.
func (c Config) Validate() error {
	var errs []error
	if c.PoolSize < 1 || c.PoolSize > 10000 {
		errs = append(errs, fmt.Errorf("database.pool_size is %d: it must be between 1 and 10000", c.PoolSize))
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{
		{"start_timeout", c.StartTimeout},
		{"request_timeout", c.RequestTimeout},
		{"migrate_lock_timeout", c.MigrateLockTimeout},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("database.%s is %s: it must be positive", d.key, d.value))
		}
	}
	return errors.Join(errs...)
}
