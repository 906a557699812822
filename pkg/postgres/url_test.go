package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
)

// All functions that read a URL refuse the same options. So a server that starts with a URL can also ping and push.
func TestURLsThatCannotWorkAreRefused(t *testing.T) {
	for option, text := range map[string]string{
		"pool_max_conns=9":                        "pool_max_conns is no option of the URL: remove it; database.pool_size bounds the connections",
		"pool_min_conns=1":                        "pool_min_conns is no option",
		"default_query_exec_mode=simple_protocol": "default_query_exec_mode is neither",
		"default_query_exec_mode=exec":            "default_query_exec_mode is neither",
		"statement_cache_capacity=0":              "statement_cache_capacity is 0",
		"description_cache_capacity=0":            "description_cache_capacity is 0",
		"default_query_exec_mode=nonsense":        "default_query_exec_mode",
	} {
		cfg := DefaultConfig()
		cfg.URL = setting.Secret("postgres://u:hidden@localhost/d?" + option)
		_, pool := Open(t.Context(), cfg, "test", 0)
		_, pinger := NewPinger(cfg, "test")
		_, session := OpenSession(t.Context(), cfg.URL.Reveal(), "test")
		for _, err := range []error{pool, pinger, session} {
			require.ErrorContains(t, err, text, option)
			require.NotContains(t, err.Error(), "hidden")
		}
	}
	for _, option := range []string{"", "default_query_exec_mode=cache_describe", "statement_cache_capacity=7&description_cache_capacity=7"} {
		config, err := ParseURL(" \t postgres://u@localhost/d?" + option + "\n")
		require.NoError(t, err, option)
		require.Equal(t, "d", config.Database)
		require.Empty(t, config.RuntimeParams, "options that the driver understands are not sent to Postgres")
	}
}

// A server that is too old is refused at once. Otherwise its first error would be a syntax error.
func TestOldVersionsAreRefused(t *testing.T) {
	for version, old := range map[string]bool{
		"9.6.24": true, "12.20": true, "13.16 (Debian 13.16-1)": true, "14.0": false, "15.4 (Debian 15.4-1)": false, "18beta1": false, "14devel": false,
		"": false, "unknown": false,
	} {
		err := checkVersion(version)
		require.Equal(t, old, err != nil, version)
		if old {
			require.ErrorContains(t, err, version)
			require.ErrorContains(t, err, "Postgres 14 or later")
		}
	}
}

// For each place where default_transaction_read_only can be set, writable names the command that undoes the setting there.
func TestWritableNamesThePlace(t *testing.T) {
	for source, want := range map[string]string{
		"user": "ALTER ROLE r RESET", "database": "ALTER DATABASE d RESET", "database user": "ALTER ROLE r IN DATABASE d RESET",
		"client": "database.url", "configuration file": "ALTER SYSTEM RESET", "command line": "default_transaction_read_only",
	} {
		require.Contains(t, writable(source, "r", "d"), want, source)
	}
}
