package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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
	// Tracer watches the statements of a pool. It is no setting. Nil: nothing does.
	Tracer pgx.QueryTracer
}

// DefaultConfig returns the values of config/belfry.yaml.
func DefaultConfig() Config {
	return Config{
		PoolSize: 20, StartTimeout: 60 * time.Second, RequestTimeout: 5 * time.Second,
		MigrateOnStart: true, MigrateLockTimeout: 60 * time.Second,
	}
}

// DirectURL returns the DSN that leads directly to Postgres. LISTEN, the migrations and the sequencer use it, because they do not
// work through a pooler in transaction mode.
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

// ParseURL reads a DSN. It ignores white space around the DSN. It refuses options of the driver with which Belfry cannot work. It
// also refuses options of the driver's pool, because the configuration has keys for them. Errors show no part of the DSN.
func ParseURL(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(strings.TrimSpace(url))
	if err != nil {
		return nil, InvalidURL(err)
	}
	for _, name := range slices.Sorted(maps.Keys(config.RuntimeParams)) {
		if strings.HasPrefix(name, "pool_") {
			return nil, fmt.Errorf("%s is no option of the URL: remove it; database.pool_size bounds the connections", name)
		}
	}
	switch mode := config.DefaultQueryExecMode; {
	case mode != pgx.QueryExecModeCacheStatement && mode != pgx.QueryExecModeCacheDescribe:
		return nil, errors.New("default_query_exec_mode is neither cache_statement nor cache_describe: remove it from the URL")
	case config.StatementCacheCapacity <= 0:
		return nil, errors.New("statement_cache_capacity is 0: remove it from the URL")
	case config.DescriptionCacheCapacity <= 0:
		return nil, errors.New("description_cache_capacity is 0: remove it from the URL")
	}
	return config, nil
}

// quoted matches a part of a DSN in an error of pgx.
var quoted = regexp.MustCompile(`(?s)".*"`)

// InvalidURL returns why pgx refused a DSN. The error of pgx shows the DSN and hides only passwords that it recognizes. The
// returned error shows no part of the DSN.
func InvalidURL(err error) error {
	text := err.Error()
	if end := strings.LastIndex(text, "`: "); end >= 0 {
		text = text[end+len("`: "):]
	}
	if strings.HasPrefix(text, "failed to parse as") || strings.HasPrefix(text, "invalid port") { // often because of a character in the password
		text += ": write it as postgres://user:password@host:5432/name, with characters such as / # ? % @ in the password percent-encoded"
	}
	return errors.New(quoted.ReplaceAllString(text, `"***"`))
}
