package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// write creates a configuration file in a new folder, and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "belfry.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// problems loads opts, which must fail, and returns the lines of the error.
func problems(t *testing.T, opts Options) []string {
	t.Helper()
	_, err := Load(opts)
	var e *Error
	require.ErrorAs(t, err, &e)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, len(e.Problems)+1, "one line per problem under the heading:\n%s", err)
	return lines[1:]
}

func TestLoadWithoutInputReturnsTheDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Options{})
	require.NoError(t, err)
	cfg.sources = nil
	require.Equal(t, Default(), cfg)
}

// The test adds one layer after the other. The last layer must win.
func TestLaterLayersWin(t *testing.T) {
	t.Parallel()
	var opts Options
	check := func(want time.Duration, source string) {
		t.Helper()
		cfg, err := Load(opts)
		require.NoError(t, err)
		require.Equal(t, want, cfg.Defaults.PopTimeout)
		require.Equal(t, source, cfg.sources["defaults.pop_timeout"])
	}
	check(30*time.Second, "")
	opts.File = write(t, "defaults:\n  pop_timeout: 1s\n")
	check(time.Second, "file "+opts.File+":2")
	opts.Environ = append(opts.Environ, "DEFAULT_TIMEOUT=2000")
	check(2*time.Second, "env DEFAULT_TIMEOUT")
	opts.Environ = append(opts.Environ, "BELFRY_DEFAULTS_POP_TIMEOUT=3s")
	check(3*time.Second, "env BELFRY_DEFAULTS_POP_TIMEOUT")
	opts.Flags = map[string]string{"defaults.pop_timeout": "4s"}
	check(4*time.Second, "flag --defaults-pop-timeout")
}

func TestFileComesFromFlagBeforeEnvironment(t *testing.T) {
	t.Parallel()
	first, second := write(t, "log: {level: warn}"), write(t, "log: {level: error}")
	cfg, err := Load(Options{Environ: []string{"BELFRY_CONFIG=" + first}})
	require.NoError(t, err)
	require.Equal(t, "warn", cfg.Log.Level)
	cfg, err = Load(Options{Environ: []string{"BELFRY_CONFIG=" + first}, File: second})
	require.NoError(t, err)
	require.Equal(t, "error", cfg.Log.Level)
}

func TestMissingFileIsAProblem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "absent.yaml")
	_, err := Load(Options{File: path})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, path)
}

// Every key can be set by its variable.
func TestEveryKeyHasAVariable(t *testing.T) {
	t.Parallel()
	for _, k := range allKeys() {
		value := map[string]string{
			"string": "all", "Secret": "all", "bool": "false", "int": "7", "int32": "7", "int64": "7000", "float64": "7.5", "Duration": "1s",
			"": "https://a.example,https://b.example", // a list
		}[k.typ.Name()]
		var more []string
		switch k.name {
		case "http.addr", "http.internal_addr":
			value = "h:80"
		case "http.tls_cert_file", "http.tls_key_file", "http.tls_client_ca_file":
			more = []string{"BELFRY_HTTP_TLS_CERT_FILE=all", "BELFRY_HTTP_TLS_KEY_FILE=all"}
		case "http.tls_client_auth":
			value = "optional"
		case "http.tls_client_role":
			value = "admin"
		case "http.allowed_hosts":
			value = "a.example,b.example"
		case "http.trusted_proxies":
			value = "10.0.0.0/8,fd00::/8"
		case "history.retention":
			value = "72h"
		case "log.level":
			value = "debug"
		case "log.format":
			value = "json"
		case "encryption.key":
			value = strings.Repeat("a", 64)
		case "encryption.keys":
			value = "a:" + strings.Repeat("a", 64)
		case "listen.peer_timeout":
			value = "20s" // above listen.canary_interval
		}
		require.NotEmpty(t, value, k.name)
		cfg, err := Load(Options{Environ: append(more, EnvName(k.name)+"="+value)})
		require.NoError(t, err, k.name)
		want, ok := k.parse(value)
		require.True(t, ok)
		require.EqualValues(t, want, k.valueIn(cfg), k.name)
	}
}

func TestEmptyVariableIsNotSet(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Options{Environ: []string{
		"BELFRY_HTTP_ADDR=", "BELFRY_CONFIG=", "PG_HOST=", "PORT=", "DB_POOL_SIZE=", "DEFAULT_TIMEOUT=",
	}})
	require.NoError(t, err)
	cfg.sources = nil
	require.Equal(t, Default(), cfg)
}

func TestUnknownVariableNamesTheNearest(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"  - the environment variable BELFRY_CONFG is unknown: did you mean BELFRY_CONFIG? Rename or unset it",
		"  - the environment variable BELFRY_HTTP_ADRR is unknown: did you mean BELFRY_HTTP_ADDR? Rename or unset it",
	}, problems(t, Options{Environ: []string{
		"BELFRY_HTTP_ADRR=:1", "BELFRY_CONFG=x", "BELFRY_TEST_DATABASE_URL=x", "BELFRY_PG_BIN=/x", "HOME=/", "BELFRYX=1", "BELFRY_DIR=/x",
	}}))
	for _, name := range []string{"BELFRY_HTP_ADDR", "BELFRY_HTTP_NOPE", "BELFRY_LOG_LEVEL_FILE", "BELFRY_DATABASEURL"} {
		require.Len(t, problems(t, Options{Environ: []string{name + "=x"}}), 1, name)
	}
}

// A variable that begins with BELFRY_ and does not resemble a setting is no error. The printed configuration lists it.
func TestOtherVariablesAreListed(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Options{Environ: []string{"BELFRY_DIR=/x", "BELFRY_HOME=/y", "BELFRY_PG_BIN=/x", "BELFRY_TOKEN=x", "BELFRY_SERVER=x"}})
	require.NoError(t, err)
	require.Equal(t, []string{"BELFRY_DIR", "BELFRY_HOME"}, cfg.Unknown())
	require.Contains(t, printed(t, cfg), "# Environment variables with the prefix BELFRY_ that do not name a setting: BELFRY_DIR, BELFRY_HOME\n")
}

func TestWrongTypesNameKeyValueSourceAndType(t *testing.T) {
	t.Parallel()
	file := write(t, "database:\n  pool_size: many\nhttp:\n  max_body_bytes: 16MB\n")
	require.ElementsMatch(t, []string{
		`  - database.pool_size is "many" (file ` + file + `:2): it must be a whole number of at most 2147483647`,
		`  - http.max_body_bytes is "16MB" (file ` + file + `:4): it must be a size in bytes such as 16777216 or 16MiB`,
		`  - dispatch.poll_interval is "100" (env BELFRY_DISPATCH_POLL_INTERVAL): it must be a duration such as 100ms, 5s or 2m`,
		`  - dispatch.backoff_multiplier is "NaN" (env BELFRY_DISPATCH_BACKOFF_MULTIPLIER): it must be a number such as 1.5`,
		`  - dispatch.max_intentions is "1e4" (env MAX_INTENTIONS): it must be a whole number`,
		`  - database.migrate_on_start is "maybe" (flag --database-migrate-on-start): it must be true or false`,
	}, problems(t, Options{
		File: file,
		Environ: []string{
			"BELFRY_DISPATCH_POLL_INTERVAL=100", "BELFRY_DISPATCH_BACKOFF_MULTIPLIER=NaN", "MAX_INTENTIONS=1e4",
		},
		Flags: map[string]string{"database.migrate_on_start": "maybe"},
	}))
}

// One error lists unknown names, wrong types and invalid values.
func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	file := write(t, "htpp:\n  addr: ':1'\nlog:\n  level: loud\n  colour: red\n")
	lines := problems(t, Options{
		File:    file,
		Environ: []string{"BELFRY_DATABASE_POOL_SIZE=0", "BELFRY_DEFAULTS_RETRY_LIMIT=x", "BELFRY_HTTP_NOPE=1", "PG_PORT=x"},
		Flags:   map[string]string{"log.lvl": "info"},
	})
	require.ElementsMatch(t, []string{
		"  - the flag --log-lvl is unknown: did you mean the setting log.level?",
		"  - the environment variable BELFRY_HTTP_NOPE is unknown: did you mean BELFRY_HTTP_ADDR? Rename or unset it",
		"  - the key htpp is unknown: did you mean http? (file " + file + ":1)",
		"  - the key log.colour is unknown: did you mean log.format? (file " + file + ":5)",
		`  - the environment variable PG_PORT (for database.url) is "x": it must be a number from 1 to 65535`,
		`  - defaults.retry_limit is "x" (env BELFRY_DEFAULTS_RETRY_LIMIT): it must be a whole number`,
		"  - database.pool_size is 0: it must be between 1 and 10000 (env BELFRY_DATABASE_POOL_SIZE)",
		`  - log.level is "loud": it must be debug, info, warn or error (file ` + file + ":4)",
	}, lines)
}

func TestEverySectionIsValidated(t *testing.T) {
	t.Parallel()
	lines := problems(t, Options{Environ: []string{
		"BELFRY_DATABASE_POOL_SIZE=0", "BELFRY_HTTP_MAX_BODY_BYTES=1", "BELFRY_DISPATCH_MAX_INTENTIONS=0",
		"BELFRY_DEFAULTS_POP_BATCH_SIZE=0", "BELFRY_LOG_LEVEL=loud", "BELFRY_LOG_FORMAT=xml",
	}})
	require.Len(t, lines, 6)
	for i, key := range []string{
		"database.pool_size", "http.max_body_bytes", "dispatch.max_intentions", "defaults.pop_batch_size", "log.level", "log.format",
	} {
		require.Contains(t, lines[i], key+" is ")
	}
}

func TestFailedLoadReturnsNothing(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Options{Environ: []string{"BELFRY_HTTP_NOPE=1"}})
	require.Error(t, err)
	require.Equal(t, Config{}, cfg)
	var e *Error
	require.ErrorAs(t, err, &e)
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"16777216": 16 << 20, "16MiB": 16 << 20, "16 MiB": 16 << 20, "2KiB": 2048, "1GiB": 1 << 30,
	} {
		cfg, err := Load(Options{Environ: []string{"BELFRY_HTTP_MAX_BODY_BYTES=" + text}})
		require.NoError(t, err, text)
		require.Equal(t, want, cfg.HTTP.MaxBodyBytes, text)
	}
	for _, text := range []string{"16MB", "1.5MiB", "MiB", "9223372036854775807KiB", "0x10"} {
		lines := problems(t, Options{Environ: []string{"BELFRY_HTTP_MAX_BODY_BYTES=" + text}})
		require.Len(t, lines, 1, text)
		require.Contains(t, lines[0], "it must be a size in bytes", text)
	}
}

// A setting that is not UTF-8 is an error: a file cannot contain it, so Load could not read the output of Print.
func TestTextIsUTF8(t *testing.T) {
	t.Parallel()
	lines := problems(t, Options{Environ: []string{"BELFRY_HTTP_ADDR=\xe0:1"}})
	require.Equal(t, []string{`  - http.addr is "\xe0:1" (env BELFRY_HTTP_ADDR): it must be text`}, lines)
}

// If a Kubernetes namespace has a Service called belfry or pg, every container of the namespace has these variables.
func TestVariablesOfAKubernetesServiceAreIgnored(t *testing.T) {
	t.Parallel()
	ofService := func(service string) []string {
		return []string{
			service + "_SERVICE_HOST=10.0.0.1", service + "_SERVICE_PORT=6632", service + "_SERVICE_PORT_HTTP=6632",
			service + "_PORT=tcp://10.0.0.1:6632", service + "_PORT_6632_TCP=tcp://10.0.0.1:6632", service + "_PORT_6632_TCP_PROTO=tcp",
			service + "_PORT_6632_TCP_PORT=6632", service + "_PORT_6632_TCP_ADDR=10.0.0.1",
		}
	}
	cfg, err := Load(Options{Environ: append(append(ofService("BELFRY"), ofService("BELFRY_HTTP")...), "BELFRY_LOG_LEVEL=warn")})
	require.NoError(t, err)
	require.Equal(t, Default().HTTP, cfg.HTTP)
	cfg, err = Load(Options{Environ: append(ofService("PG"), "PG_HOST=db")})
	require.NoError(t, err)
	require.Equal(t, "postgres://postgres:postgres@db:5432/postgres", cfg.Database.URL.Reveal())
	cfg, err = Load(Options{Environ: []string{"PG_SERVICE_HOST=db", "PG_PORT=6543"}})
	require.NoError(t, err)
	require.Equal(t, "postgres://postgres:postgres@localhost:6543/postgres", cfg.Database.URL.Reveal(), "the PORT of a Service is a URL")
	for _, environ := range [][]string{
		{"BELFRY_PORT=6632"},
		{"BELFRY_PORT=6632", "OTHER_SERVICE_HOST=10.0.0.1", "_SERVICE_HOST=10.0.0.1"},
		append(ofService("BELFRY"), "BELFRY_PORTS=6632"),
		append(ofService("BELFRY"), "BELFRY_HTTP_PORT=6632"),
		append(ofService("BELFRY_HTTP"), "BELFRY_PORT=6632"),
		{"BELFRY_SERVICE_HOST=10.0.0.1", "BELFRY_PORT=6632"},
	} {
		_, err := Load(Options{Environ: environ})
		require.ErrorContains(t, err, "is unknown", "%v", environ)
	}
}
