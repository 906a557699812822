package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/config/setting"
)

// The variable of each secret has a _FILE form. The variables of Queen MQ for secrets have it too.
func TestSecretsComeFromFiles(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("ab", 32)
	for variable, c := range map[string]struct{ content, key, want string }{
		"BELFRY_DATABASE_URL_FILE":        {"postgres://u:p@h/d\n", "database.url", "postgres://u:p@h/d"},
		"BELFRY_DATABASE_LISTEN_URL_FILE": {"postgres://u:p@h/d", "database.listen_url", "postgres://u:p@h/d"},
		"BELFRY_ENCRYPTION_KEY_FILE":      {digits + "\r\n", "encryption.key", digits},
		"BELFRY_ENCRYPTION_KEYS_FILE":     {"a:" + digits + "\n", "encryption.keys", "a:" + digits},
		"QUEEN_ENCRYPTION_KEY_FILE":       {digits, "encryption.key", digits},
		"PG_PASSWORD_FILE":                {"p@ss \n", "database.url", "postgres://postgres:p%40ss%20@localhost:5432/postgres"},
	} {
		cfg, err := Load(Options{Environ: []string{variable + "=" + write(t, c.content)}})
		require.NoError(t, err, variable)
		require.Equal(t, setting.Secret(c.want), keyNamed(c.key).valueIn(cfg), variable)
		require.Equal(t, "env "+variable, cfg.sources[c.key])
	}
	for _, k := range allKeys() {
		if !k.isSecret() {
			continue
		}
		_, err := Load(Options{Environ: []string{EnvName(k.name) + fileSuffix + "=/does/not/exist"}})
		require.ErrorIs(t, err, os.ErrNotExist, "%s has a file", k.name)
	}
}

func TestUnusableSecretFilesAreProblems(t *testing.T) {
	t.Parallel()
	const mark = "S3cr3t"
	for name, path := range map[string]string{
		"missing": filepath.Join(t.TempDir(), "absent"), "a folder": t.TempDir(), "empty": write(t, "\n"),
		"too large": write(t, mark+strings.Repeat("x", maxSecretBytes)), "not text": write(t, mark+"\xff"), "not a key": write(t, mark),
	} {
		lines := problems(t, Options{Environ: []string{"BELFRY_ENCRYPTION_KEY_FILE=" + path}})
		require.Len(t, lines, 1, name)
		require.Contains(t, lines[0], "BELFRY_ENCRYPTION_KEY_FILE", name)
		require.NotContains(t, lines[0], mark, name)
		if name != "not text" && name != "not a key" { // in these two cases the file is usable and the value is invalid
			require.Contains(t, lines[0], path, name)
		}
	}
	require.Equal(t, []string{"  - the environment variable BELFRY_ENCRYPTION_KEY_FILE must be the absolute path of a file"},
		problems(t, Options{Environ: []string{"BELFRY_ENCRYPTION_KEY_FILE=" + mark}}), "the error does not show a value that may be a secret")
	for _, name := range []string{"BELFRY_ENCRYPTION_KEY", "QUEEN_ENCRYPTION_KEY", "PG_PASSWORD"} {
		require.Equal(t, []string{"  - the environment variables " + name + " and " + name + "_FILE are both set: unset one of them"},
			problems(t, Options{Environ: []string{name + "=" + mark, name + "_FILE=" + write(t, mark)}}))
	}
	require.Equal(t, []string{"  - the environment variable BELFRY_LOG_LEVEL_FILE is unknown: did you mean BELFRY_LOG_LEVEL? Rename or unset it"},
		problems(t, Options{Environ: []string{"BELFRY_LOG_LEVEL_FILE=/x"}}), "only the variables of secrets have a _FILE form")
}

// If a BELFRY_ variable is set, Load does not read the file of an alias. An unusable file of the alias is no error.
func TestSecretFileOfAnOverriddenAliasIsNotRead(t *testing.T) {
	t.Parallel()
	_, err := Load(Options{Environ: []string{"BELFRY_DATABASE_URL=postgres://h/d", "PG_PASSWORD_FILE=/does/not/exist"}})
	require.NoError(t, err)
}

// marked returns a configuration with a marker in every secret.
func marked(t *testing.T, mark string) Config {
	t.Helper()
	cfg := Default()
	v := map[string]setting.Secret{
		"database.url":        setting.Secret("postgres://u:" + mark + "@h/d?sslpassword=" + mark),
		"database.listen_url": setting.Secret("host=h password='" + mark + "'"),
		"encryption.key":      setting.Secret(mark), "encryption.keys": setting.Secret("a:" + mark),
		"auth.secret": setting.Secret(mark), "auth.previous_secret": setting.Secret(mark), "auth.client_secret": setting.Secret(mark),
	}
	for _, k := range allKeys() {
		if k.isSecret() {
			require.NotEmpty(t, v[k.name], "%s has no value in this test", k.name)
			reflect.ValueOf(&cfg).Elem().FieldByIndex(k.index).SetString(v[k.name].Reveal())
		}
	}
	return cfg
}

func TestNoPrinterShowsASecret(t *testing.T) {
	t.Parallel()
	const mark = "S3cr3t"
	cfg := marked(t, mark)
	var out bytes.Buffer
	require.NoError(t, cfg.Print(&out))
	for _, value := range []any{cfg, &cfg, cfg.Database, &cfg.Encryption, []any{cfg}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			_, _ = fmt.Fprintf(&out, verb, value)
		}
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		out.Write(encoded)
		for _, encoder := range []zapcore.Encoder{
			zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
		} {
			zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zap.DebugLevel)).Debug("settings", zap.Any("cfg", value), zap.Reflect("deep", value))
		}
	}
	_, _ = fmt.Fprint(&out, cfg.Validate())
	require.NotContains(t, out.String(), mark)
	require.NotContains(t, out.String(), fmt.Sprintf("%x", mark))
}

// No error shows the value of a secret. The value may be invalid, have the wrong kind in the
// file, or break the syntax of the file.
func TestNoProblemShowsASecret(t *testing.T) {
	t.Parallel()
	const mark = "S3cr3t"
	for _, k := range allKeys() {
		if !k.isSecret() {
			continue
		}
		section, name, _ := strings.Cut(k.name, ".")
		options := []Options{{Environ: []string{EnvName(k.name) + "=" + mark + "\xff"}}, {Flags: map[string]string{k.name: mark + "\xff"}}}
		for _, value := range []string{
			"[" + mark + "]", "{a: " + mark + "}", "*" + mark, "!" + mark, "!!int " + mark, "'" + mark, `"\q` + mark, "a: " + mark, "@" + mark,
			"{" + mark, mark + "\n  " + name + ": " + mark, "|\n" + mark, "&" + mark + " [a]", "%" + mark, "!!binary " + mark, "0x1\n--- " + mark,
		} {
			options = append(options, Options{File: write(t, section+":\n  "+name+": "+value+"\n")})
		}
		for _, o := range options {
			if _, err := Load(o); err != nil {
				require.NotContains(t, err.Error(), mark, "%+v", o)
			}
		}
	}
}
