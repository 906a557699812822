package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/config"
)

// belfry runs one command line and returns its exit code and output.
func belfry(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func configFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "belfry.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestMistypedCommandLinesExitWith2(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"serv":                       "belfry: unknown command \"serv\", did you mean serve?\nRun 'belfry --help' for usage.\n",
		"xyzzy":                      "belfry: unknown command \"xyzzy\"\nRun 'belfry --help' for usage.\n",
		"serve --nope":               "belfry: unknown flag: --nope\nRun 'belfry serve --help' for usage.\n",
		"config extra":               "belfry: unknown command \"extra\" for \"belfry config\"\nRun 'belfry config --help' for usage.\n",
		"config --check --reference": "Run 'belfry config --help' for usage.\n",
	} {
		code, stdout, stderr := belfry(t, strings.Fields(line)...)
		require.Equal(t, 2, code, line)
		require.Contains(t, stderr, want, line)
		require.Empty(t, stdout, line)
	}
}

func TestNoCommandPrintsHelp(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := belfry(t)
	require.Zero(t, code)
	require.Empty(t, stderr)
	for _, word := range []string{"serve", "dev", "migrate", "config", "--database-url", "BELFRY_HTTP_ADDR"} {
		require.Contains(t, stdout, word)
	}
}

func TestVersionCommandAndFlagPrintTheSame(t *testing.T) {
	t.Parallel()
	_, flag, _ := belfry(t, "--version")
	code, command, _ := belfry(t, "version")
	require.Zero(t, code)
	require.Equal(t, flag, command)
	require.Regexp(t, `^belfry \S+\n$`, command)
}

func TestConfigPrintsFlagsOverFile(t *testing.T) {
	t.Parallel()
	file := configFile(t, "http: {addr: ':1'}\nlog: {format: json}\n")
	code, stdout, stderr := belfry(t, "config", "--config", file, "--http-addr", ":2", "--log-level=debug",
		"--database-url", "postgres://u:secret@h/d")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "addr: :2 # flag --http-addr\n")
	require.Contains(t, stdout, "level: debug # flag --log-level\n")
	require.Contains(t, stdout, "format: json # file "+file+":2\n")
	require.Contains(t, stdout, "url: postgres://u:***@h/d # flag --database-url\n")
}

func TestConfigCheckPrintsOnlyProblems(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := belfry(t, "config", "--check", "--database-url", "postgres://u@h/d", "--config", configFile(t, config.Reference()))
	require.Zero(t, code, stderr)
	require.Empty(t, stdout+stderr)

	code, stdout, stderr = belfry(t, "config", "--check", "--log-level", "loud", "--config", configFile(t, "htpp: 1"))
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	require.True(t, strings.HasPrefix(stderr, "belfry: the configuration cannot be used:\n"), stderr)
	require.Contains(t, stderr, "the key htpp is unknown: did you mean http?")
	require.Contains(t, stderr, `log.level is "loud"`)
	require.Equal(t, 1, strings.Count(stderr, "cannot be used"), "the error is printed once")
}

func TestConfigReferencePrintsTheReferenceFile(t *testing.T) {
	t.Parallel()
	code, stdout, _ := belfry(t, "config", "--reference")
	require.Zero(t, code)
	require.Equal(t, config.Reference(), stdout)
}

func TestServeWithoutDatabaseSaysWhatToSet(t *testing.T) {
	t.Parallel()
	// The empty flag overrides the environment variable of the machine that runs the test.
	code, stdout, stderr := belfry(t, "serve", "--database-url", "")
	require.Equal(t, 1, code)
	require.Empty(t, stdout)
	for _, word := range []string{"--database-url", "BELFRY_DATABASE_URL", "PG_HOST", "belfry dev"} {
		require.Contains(t, stderr, word)
	}
	require.NotContains(t, stderr, "--help", "the command line was right")
}

func TestLoggerFollowsLevel(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"console", "json"} {
		cfg := config.Default()
		cfg.Log = config.Log{Level: "warn", Format: format}
		log, err := newLogger(cfg, zapcore.AddSync(io.Discard))
		require.NoError(t, err)
		require.True(t, log.Core().Enabled(zapcore.WarnLevel), format)
		require.False(t, log.Core().Enabled(zapcore.InfoLevel), format)
	}
	_, err := newLogger(config.Config{Log: config.Log{Level: "loud"}}, zapcore.AddSync(io.Discard))
	require.ErrorContains(t, err, "loud")
}
