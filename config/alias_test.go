package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/sweep"
)

func replaceFile(pattern, file string) string { return strings.ReplaceAll(pattern, "%s", file) }

func TestAliases(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Options{Environ: []string{
		"DB_POOL_SIZE=33", "MAX_INTENTIONS=44", "POLL_INTERVAL_MS=250", "QUEUE_MAX_POLL_INTERVAL=5000",
		"QUEUE_BACKOFF_THRESHOLD=5", "QUEUE_BACKOFF_MULTIPLIER=1.5", "DEFAULT_TIMEOUT=7000", "DEFAULT_BATCH_SIZE=8",
		"DEFAULT_SUBSCRIPTION_MODE=new", "LOG_LEVEL=warn", "SIDECAR_POOL_SIZE=50", "POLL_WORKER_COUNT=3",
		"QUEUE_BACKOFF_CLEANUP_THRESHOLD=90", "USE_PRIORITY_DISPATCH=false", "SMART_POLL_PREFLIGHT_TIMEOUT=75",
		"SMART_POLL_MAX_INTENTIONS=55", "SMART_POLL_MIN_INTERVAL=20", "RETENTION_INTERVAL=2000", "RETENTION_BATCH_SIZE=66",
		"EVICTION_INTERVAL=3000", "EVICTION_BATCH_SIZE=77", "PARTITION_CLEANUP_DAYS=9", "FILE_BUFFER_DIR=/buffers",
		"METRICS_RETENTION_DAYS=30",
	}})
	require.NoError(t, err)
	cfg.sources = nil
	want := Default()
	want.Database.PoolSize = 33
	want.Dispatch.MaxIntentions = 44
	want.Dispatch.PollInterval = 250 * time.Millisecond
	want.Dispatch.MaxPollInterval = 5 * time.Second
	want.Dispatch.BackoffThreshold = 5
	want.Dispatch.BackoffMultiplier = 1.5
	want.Dispatch.PollWorkers = 3
	want.Dispatch.BackoffCleanup = 90 * time.Second
	want.Dispatch.UsePriorityDispatch = false
	want.SmartPoll.PreflightTimeout = 75 * time.Millisecond
	want.SmartPoll.MaxIntentions = 55
	want.SmartPoll.MinInterval = 20 * time.Millisecond
	want.Defaults.PopTimeout = 7 * time.Second
	want.Defaults.PopBatchSize = 8
	want.Defaults.SubscriptionMode = "new"
	want.Log.Level = "warn"
	want.Sweep = sweep.Config{
		RetentionInterval: 2 * time.Second, RetentionBatchSize: 66, EvictionInterval: 3 * time.Second, EvictionBatchSize: 77,
		PartitionCleanupDays: 9, PartitionCleanupInterval: time.Hour,
	}
	want.Spool.Dir = "/buffers"
	want.History.Retention = 30 * 24 * time.Hour
	want.ignored = []string{"SIDECAR_POOL_SIZE"}
	require.Equal(t, want, cfg)
}

func TestPollIntervalAliasesInOrder(t *testing.T) {
	t.Parallel()
	environ := []string{"POLL_DB_INTERVAL=3", "POLL_WORKER_INTERVAL=2", "POLL_INTERVAL_MS=1"}
	for n, want := range []time.Duration{3, 2, 1} {
		cfg, err := Load(Options{Environ: environ[:n+1]})
		require.NoError(t, err)
		require.Equal(t, want*time.Millisecond, cfg.Dispatch.PollInterval)
	}
}

// The BELFRY_ variable of a key wins over every alias, even over an alias with an invalid value.
func TestBelfryVariableHasPrecedenceOverAlias(t *testing.T) {
	t.Parallel()
	mine := []string{
		"BELFRY_DATABASE_URL=postgres://mine/db", "BELFRY_HTTP_ADDR=:7", "BELFRY_DATABASE_POOL_SIZE=7",
		"BELFRY_DISPATCH_MAX_INTENTIONS=7", "BELFRY_DISPATCH_POLL_INTERVAL=7ms", "BELFRY_DISPATCH_MAX_POLL_INTERVAL=7s",
		"BELFRY_DISPATCH_BACKOFF_THRESHOLD=7", "BELFRY_DISPATCH_BACKOFF_MULTIPLIER=7", "BELFRY_DEFAULTS_POP_TIMEOUT=7s",
		"BELFRY_DEFAULTS_POP_BATCH_SIZE=7", "BELFRY_DEFAULTS_SUBSCRIPTION_MODE=all", "BELFRY_LOG_LEVEL=error",
		"BELFRY_ENCRYPTION_KEY=" + strings.Repeat("7", 64), "BELFRY_DISPATCH_POLL_WORKERS=7",
		"BELFRY_DISPATCH_BACKOFF_CLEANUP=7s", "BELFRY_DISPATCH_USE_PRIORITY_DISPATCH=true",
		"BELFRY_SMART_POLL_PREFLIGHT_TIMEOUT=7ms", "BELFRY_SMART_POLL_MAX_INTENTIONS=7", "BELFRY_SMART_POLL_MIN_INTERVAL=7ms",
		"BELFRY_SWEEP_RETENTION_INTERVAL=7s", "BELFRY_SWEEP_RETENTION_BATCH_SIZE=7", "BELFRY_SWEEP_EVICTION_INTERVAL=7s",
		"BELFRY_SWEEP_EVICTION_BATCH_SIZE=7", "BELFRY_SWEEP_PARTITION_CLEANUP_DAYS=7",
		"BELFRY_SPOOL_DIR=7", "BELFRY_HISTORY_RETENTION=777h",
		"BELFRY_AUTH_ENABLED=false", "BELFRY_AUTH_ALGORITHM=auto", "BELFRY_AUTH_SECRET=7", "BELFRY_AUTH_PUBLIC_KEY=7", "BELFRY_AUTH_JWKS_URL=7",
		"BELFRY_AUTH_JWKS_REFRESH_INTERVAL=7s", "BELFRY_AUTH_JWKS_TIMEOUT=7s", "BELFRY_AUTH_ISSUER=7", "BELFRY_AUTH_AUDIENCE=7",
		"BELFRY_AUTH_CLOCK_SKEW=7s", "BELFRY_AUTH_ROLE_CLAIM=7", "BELFRY_AUTH_ROLES_CLAIM=7", "BELFRY_AUTH_ADMIN_ROLE=7",
		"BELFRY_AUTH_READ_WRITE_ROLE=7", "BELFRY_AUTH_READ_ONLY_ROLE=7", "BELFRY_AUTH_SKIP_PATHS=/7",
	}
	want, err := Load(Options{Environ: mine})
	require.NoError(t, err)
	theirs := []string{"PG_HOST=other", "PG_PORT=x", "PG_USE_SSL=x", "PORT=x", "HOST=other"}
	for _, a := range aliases {
		for _, name := range a.names {
			theirs = append(theirs, name+"=x")
		}
	}
	got, err := Load(Options{Environ: append(theirs, mine...)})
	require.NoError(t, err)
	require.Equal(t, want, got)

	flagged, err := Load(Options{Environ: []string{"PG_PORT=x"}, Flags: map[string]string{"database.url": "postgres://f/db"}})
	require.NoError(t, err)
	require.Equal(t, "postgres://f/db", flagged.Database.URL.Reveal())
}

func TestDatabaseURLFromParts(t *testing.T) {
	t.Parallel()
	for environ, want := range map[string]string{
		"PG_USE_SSL=true":                 "",
		"PG_HOST=db":                      "postgres://postgres:postgres@db:5432/postgres",
		"PG_PORT=6543":                    "postgres://postgres:postgres@localhost:6543/postgres",
		"PG_PASSWORD=p@s/s:w?#%":          "postgres://postgres:p%40s%2Fs%3Aw%3F%23%25@localhost:5432/postgres",
		"PG_USER=u;PG_DB=d":               "postgres://u:postgres@localhost:5432/d",
		"PG_HOST=db;PG_USE_SSL=true":      "postgres://postgres:postgres@db:5432/postgres?sslmode=require",
		"PG_HOST=db;PG_USE_SSL=false":     "postgres://postgres:postgres@db:5432/postgres",
		"PG_HOST=::1":                     "postgres://postgres:postgres@[::1]:5432/postgres",
		"PG_HOST=/var/run/postgresql":     "postgres://postgres:postgres@/postgres?host=%2Fvar%2Frun%2Fpostgresql&port=5432",
		"PG_HOST=db;BELFRY_DATABASE_URL=": "postgres://postgres:postgres@db:5432/postgres",
	} {
		cfg, err := Load(Options{Environ: strings.Split(environ, ";")})
		require.NoError(t, err, environ)
		require.Equal(t, want, cfg.Database.URL.Reveal(), environ)
	}
	for _, environ := range []string{"PG_PORT=0", "PG_PORT=65536", "PG_HOST=db;PG_USE_SSL=yes"} {
		require.Len(t, problems(t, Options{Environ: strings.Split(environ, ";")}), 1, environ)
	}
}

func TestHTTPAddrFromHalves(t *testing.T) {
	t.Parallel()
	file := write(t, "http: {addr: '127.0.0.1:9000'}")
	for _, c := range []struct{ file, environ, want string }{
		{"", "PORT=7000", ":7000"},
		{"", "HOST=10.0.0.1", "10.0.0.1:6632"},
		{"", "HOST=::1;PORT=7000", "[::1]:7000"},
		{file, "PORT=7000", "127.0.0.1:7000"},
		{file, "HOST=0.0.0.0", "0.0.0.0:9000"},
	} {
		cfg, err := Load(Options{File: c.file, Environ: strings.Split(c.environ, ";")})
		require.NoError(t, err, c)
		require.Equal(t, c.want, cfg.HTTP.Addr, c)
	}
	require.Len(t, problems(t, Options{Environ: []string{"PORT=http"}}), 1)
}

func TestAliasesWithAUnitMustBeNumbers(t *testing.T) {
	t.Parallel()
	require.Equal(t,
		[]string{`  - dispatch.backoff_cleanup is "1h" (env QUEUE_BACKOFF_CLEANUP_THRESHOLD): it must be a whole number of seconds`},
		problems(t, Options{Environ: []string{"QUEUE_BACKOFF_CLEANUP_THRESHOLD=1h"}}))
	require.Equal(t,
		[]string{`  - defaults.pop_timeout is "30s" (env DEFAULT_TIMEOUT): it must be a whole number of milliseconds`},
		problems(t, Options{Environ: []string{"DEFAULT_TIMEOUT=30s"}}))
}
