package postgres

import (
	"cmp"
	"errors"
	"time"

	"github.com/belfry-mq/belfry/config/setting"
)

// Config is the section "database". config/belfry.yaml describes its keys.
type Config struct {
	URL                setting.Secret `mapstructure:"url"`
	ListenURL          setting.Secret `mapstructure:"listen_url"` // see DirectURL
	PoolSize           int32          `mapstructure:"pool_size"`
	StartTimeout       time.Duration  `mapstructure:"start_timeout"`
	RequestTimeout     time.Duration  `mapstructure:"request_timeout"`
	MigrateOnStart     bool           `mapstructure:"migrate_on_start"`
	MigrateLockTimeout time.Duration  `mapstructure:"migrate_lock_timeout"`
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		PoolSize: 20, StartTimeout: 60 * time.Second, RequestTimeout: 5 * time.Second,
		MigrateOnStart: true, MigrateLockTimeout: 60 * time.Second,
	}
}

// DirectURL returns the DSN that does not lead through a pooler in transaction mode. It
// serves LISTEN, the migrations and the sequencer.
func (c Config) DirectURL() setting.Secret { return cmp.Or(c.ListenURL, c.URL) }

// Validate returns one error that names every invalid value. It accepts an empty URL:
// each command decides whether it needs one.
func (c Config) Validate() error {
	return errors.Join(
		setting.Check(1 <= c.PoolSize && c.PoolSize <= 10000, "database.pool_size is %d: it must be between 1 and 10000", c.PoolSize),
		setting.Positive("database.start_timeout", c.StartTimeout),
		setting.Positive("database.request_timeout", c.RequestTimeout),
		setting.Positive("database.migrate_lock_timeout", c.MigrateLockTimeout),
	)
}
