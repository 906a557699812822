package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
)

func printed(t *testing.T, cfg Config) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, cfg.Print(&b))
	return b.String()
}

// The output of Print is a configuration file with the same settings.
func TestPrintLoadsBack(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Options{Environ: []string{
		"BELFRY_DATABASE_URL=postgres://db/x", "BELFRY_HTTP_MAX_BODY_BYTES=5000", "BELFRY_DEFAULTS_LEASE_TIME=90m1s",
		"BELFRY_DISPATCH_BACKOFF_MULTIPLIER=2.5", "BELFRY_HTTP_SHUTDOWN_TIMEOUT=2h", "BELFRY_DATABASE_MIGRATE_ON_START=false",
	}})
	require.NoError(t, err)
	back, err := Load(Options{File: write(t, printed(t, cfg))})
	require.NoError(t, err)
	cfg.sources, back.sources = nil, nil
	require.Equal(t, cfg, back)
}

// Load accepts variables of Queen MQ that Belfry does not use. Print lists them.
func TestPrintListsVariablesWithoutEffect(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Options{Environ: []string{
		"QUEEN_UDP_PEERS=a:6633", "STATS_INTERVAL_MS=7", "POP_WAIT_MAX_INTERVAL_MS=1", "STATS_INTERVAL=7", "QUEEN_ENCRYPTION_KEY=", "POLL_MAX_INTERVAL=4000",
		"POLL_BACKOFF_THRESHOLD=9", "NUM_WORKERS=",
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"POP_WAIT_MAX_INTERVAL_MS", "QUEEN_UDP_PEERS", "STATS_INTERVAL_MS"}, cfg.Ignored())
	require.Contains(t, printed(t, cfg), "# Variables of Queen MQ that are set and have no effect: POP_WAIT_MAX_INTERVAL_MS, QUEEN_UDP_PEERS, STATS_INTERVAL_MS\n")
	require.Equal(t, 4*time.Second, cfg.Dispatch.MaxPollInterval)
	require.Equal(t, 9, cfg.Dispatch.BackoffThreshold)
}

func TestPrintNamesSources(t *testing.T) {
	t.Parallel()
	file := write(t, "http:\n  max_body_bytes: 1024\n")
	cfg, err := Load(Options{
		File: file, Environ: []string{"BELFRY_DEFAULTS_POP_TIMEOUT=90s", "PG_HOST=db", "PG_PASSWORD=hunter2"},
		Flags: map[string]string{"log.level": "debug"},
	})
	require.NoError(t, err)
	out := printed(t, cfg)
	for _, line := range []string{
		"http:\n", `  addr: :6632 # default`, "  max_body_bytes: 1KiB # file " + file + ":2\n",
		"  pop_timeout: 1m30s # env BELFRY_DEFAULTS_POP_TIMEOUT\n", "  level: debug # flag --log-level\n",
		"  url: postgres://postgres:***@db:5432/postgres # env PG_HOST, PG_PASSWORD\n",
		"  listen_url: \"\" # default\n",
	} {
		require.Contains(t, out, line)
	}
	require.NotContains(t, out, "hunter2")
	for _, k := range allKeys() {
		_, name, _ := strings.Cut(k.name, ".")
		require.Contains(t, out, "\n  "+name+": ")
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestPrintReportsTheWriter(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, Default().Print(brokenWriter{}), errBroken)
}

func TestHideSecrets(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"":                                                             "",
		"postgres://host/db":                                           "postgres://host/db",
		"postgres://user@host:5432/db":                                 "postgres://user@host:5432/db",
		"postgres://user:secret@host/db":                               "postgres://user:***@host/db",
		"postgresql://user:secret@a:1,b:2/":                            "postgresql://user:***@a:1,b:2/",
		"postgres://u:sec@ret@host/db":                                 "postgres://u:***@host/db",
		"postgres://u:sec:ret@[::1]:5432/d":                            "postgres://u:***@[::1]:5432/d",
		"postgres://u:%zzsecret@host/db":                               "postgres://u:***@host/db",
		"postgres://u:sec/ret@host/db":                                 "postgres://***",
		"postgres://u:sec#ret@host/db":                                 "postgres://***",
		"postgres://u:sec?ret@host/db":                                 "postgres://***",
		"postgres://u:s@cr/et@host/db":                                 "postgres://***",
		"postgres://host/db?user=u&password=secret&sslmode=require":    "postgres://host/db?user=u&password=***&sslmode=require",
		"postgres://host/db?sslpassword=secret":                        "postgres://host/db?sslpassword=***",
		"postgres://host/db?pass%77ord=secret":                         "postgres://host/db?pass%77ord=***",
		"postgres://host/db?pass%zz=secret":                            "postgres://host/db?pass%zz=***",
		"postgres://host?password=secret#more":                         "postgres://host?password=***",
		"postgres://u:secret@host/db?password=also&application_name=b": "postgres://u:***@host/db?password=***&application_name=b",
		"postgres://host/db?password=sec@ret":                          "postgres://***",
		"host=h password=secret dbname=d":                              "host=h password=*** dbname=d",
		"host=h PASSWORD = secret":                                     "host=h PASSWORD = ***",
		`password='a secret' host=h`:                                   `password=*** host=h`,
		`password='it\'s secret' sslpassword=a\ secret host=h`:         `password=*** sslpassword=*** host=h`,
		"host=h pasword=secret Passwd=secret PWD=secret":               "host=h pasword=*** Passwd=*** PWD=***",
		"postgres://host/db?user=u&pswd=1&passwrod=secret":             "postgres://host/db?user=u&pswd=***&passwrod=***",
		"password= host=h":                                             "password= ***",
		"host=h user=password dbname=secret":                           "host=h user=password dbname=secret",
		`host=h password='open secret`:                                 "***",
		`host=h password=sec'ret`:                                      "host=h password=***",
		"user:secret@host/db":                                          "***",
		"user:secret@host/db?sslmode=require":                          "***",
		"secret":                                                       "***",
		"mysql://u:secret@host/db":                                     "***",
	} {
		require.Equal(t, want, hideSecrets(dsn), dsn)
	}
}

func TestEncryptionKeyIsNeverShown(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("ab", 32)
	cfg, err := Load(Options{Environ: []string{"QUEEN_ENCRYPTION_KEY=" + key}})
	require.NoError(t, err)
	require.Equal(t, key, cfg.Encryption.Key.Reveal())
	var out strings.Builder
	require.NoError(t, cfg.Print(&out))
	require.NotContains(t, out.String(), key)
	require.Contains(t, out.String(), "key: '***' # env QUEEN_ENCRYPTION_KEY")
	cfg.Encryption.Keys = setting.Secret("a:" + key)
	out.Reset()
	require.NoError(t, cfg.Print(&out))
	require.NotContains(t, out.String(), key)
	_, err = Load(Options{Environ: []string{"BELFRY_ENCRYPTION_KEYS=a:" + key + "zz"}})
	require.ErrorContains(t, err, "(env BELFRY_ENCRYPTION_KEYS)")
	require.NotContains(t, err.Error(), key)
	_, err = Load(Options{Environ: []string{"QUEEN_ENCRYPTION_KEY=" + key + "zz"}})
	require.ErrorContains(t, err, "encryption.key must be 64 hexadecimal digits")
	require.NotContains(t, err.Error(), key)
}

// docs/operations.md and the head comment of belfry.yaml list every secret.
func TestDocsListEverySecret(t *testing.T) {
	t.Parallel()
	for file, name := range map[string]string{"../docs/operations.md": "`%s`", "belfry.yaml": "%s"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		list := regexp.MustCompile(`(?s)\*\*Secrets\.\*\* .*? are secrets\.|# A secret \(.*?\)`).FindString(string(text))
		for _, k := range allKeys() {
			if k.isSecret() {
				require.Contains(t, list, fmt.Sprintf(name, k.name), file)
			}
		}
	}
}
