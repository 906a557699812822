package postgres

import (
	"errors"
	"fmt"
	"time"
)

// Config is the section "database".
type Config struct {
	// URL is the main DSN. It may lead through a pooler.
	URL string `mapstructure:"url"`
	// ListenURL is a DSN that does not lead through a pooler in transaction mode. It
	// serves LISTEN, the migrations and the sequencer. Empty: use URL.
	ListenURL string `mapstructure:"listen_url"`
	// PoolSize is the most connections of the pool.
	PoolSize int32 `mapstructure:"pool_size"`
	// StartTimeout is how long the server waits at start for a database that does
	// not accept connections yet.
	StartTimeout time.Duration `mapstructure:"start_timeout"`
	// RequestTimeout bounds the database work of one request, including the wait for
	// a connection. After it the client receives 503.
	RequestTimeout time.Duration `mapstructure:"request_timeout"`
	// MigrateOnStart: the server migrates the schema at start.
	MigrateOnStart bool `mapstructure:"migrate_on_start"`
	// MigrateLockTimeout is how long an instance waits while another instance
	// migrates, and how long a migration is repeated while its table is in use.
	MigrateLockTimeout time.Duration `mapstructure:"migrate_lock_timeout"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		PoolSize: 20, StartTimeout: 60 * time.Second, RequestTimeout: 5 * time.Second,
		MigrateOnStart: true, MigrateLockTimeout: 60 * time.Second,
	}
}

// DirectURL returns the DSN that does not lead through a pooler.
func (c Config) DirectURL() string {
	if c.ListenURL != "" {
		return c.ListenURL
	}
	return c.URL
}

// Validate returns one error that names every invalid value. It accepts an empty URL:
// each command decides whether it needs one.
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
