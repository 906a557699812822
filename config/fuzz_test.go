package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
)

// FuzzLoad checks three promises for any file and environment. Load does not panic. Its error
// has one line for each problem. If Load accepts a configuration, the output of Print loads
// as the same configuration.
func FuzzLoad(f *testing.F) {
	for _, environ := range []string{
		"", "BELFRY_HTTP_ADDR=:1\nBELFRY_DEFAULTS_LEASE_TIME=90m1s", "BELFRY_HTTP_MAX_BODY_BYTES=1GiB\nBELFRY_DISPATCH_BACKOFF_MULTIPLIER=1e3",
		"PG_HOST=db\nPG_PASSWORD=a b@c\nPG_USE_SSL=true", "PG_HOST=/run/postgresql\nPG_PORT=1", "HOST=::1\nPORT=80", "HOST=[::1]",
		"QUEEN_ENCRYPTION_KEY=" + strings.Repeat("0f", 32), "DEFAULT_TIMEOUT=-1\nPOLL_INTERVAL_MS=5", "BELFRY_HTTP_ADRR=:1", "LOG_LEVEL=debug",
		"BELFRY_DATABASE_URL=host=h password='a b' dbname=d", "BELFRY_DATABASE_URL=postgres://u:p@h/d\nBELFRY_DATABASE_LISTEN_URL=x y",
	} {
		f.Add([]byte(""), environ)
		f.Add([]byte("http:\n  addr: \":8080\"\n"), environ)
	}
	for _, file := range []string{
		Reference(), "{}", "~", "---\n---\n", "http: &a {addr: ':1'}\nlog: *a", "http: {addr: \"a\\nb:1\"}", "defaults: {pop_timeout: 1h0m0.000000001s}",
		"http:\n  max_body_bytes: 0x10\n", "log:\n  level: [info]\n", "<<: {http: {addr: ':1'}}", "? [a]\n: b\n", "log: {level: !!binary aW5mbw==}",
		"dispatch: {backoff_multiplier: 1.7976931348623157e308}", "http: {addr: 'h # x:1'}", "database: {url: ' '}", "database: {url: \"\\u0085\\u2028\"}",
	} {
		f.Add([]byte(file), "")
	}
	path := filepath.Join(f.TempDir(), "belfry.yaml")
	f.Fuzz(func(t *testing.T, file []byte, environ string) {
		require.NoError(t, os.WriteFile(path, file, 0o600))
		cfg, err := Load(Options{File: path, Environ: strings.Split(environ, "\n")})
		if err != nil {
			requireProblems(t, err)
			return
		}
		requireLoadsBack(t, cfg, path)
	})
}

// FuzzSetting checks that a variable and a flag with the same text have the same result, and
// that an accepted value is unchanged after printing and loading.
func FuzzSetting(f *testing.F) {
	keys := allKeys()
	for i, k := range keys {
		f.Add(byte(i), k.format(k.valueIn(Default())))
	}
	for _, text := range []string{
		"1", "-1", "0", "1h0m0s", "10h10m0s", "1ns", "2562047h47m16.854775807s", "1KiB", " 1 MiB", "8191PiB", "1e3", "1e-3", "0x1p-2", "true", "TRUE",
		"debug", "new", "::1:80", "[::1]:80", "h:80 # x", "a\nb:80", "\u0085:80", "'h':80", "- h:80", "&h:80", "postgres://u:p@h/d", "host=h password=p", "\x00",
		"9223372036854775808", "NaN", "Inf", "null", "~", "!!str x:1", "%h:1", "\ufeffh:1",
		"https://a.example, http://b.example:3000,", "*,,", "https://a.example/", "[https://a.example]", "10.0.0.0/8,fd00::1/128", "10.0.0.1", "10.0.0.0/8 # x",
	} {
		for i, k := range keys {
			switch k.name { // one key of each type
			case "http.addr", "http.cors_origins", "http.trusted_proxies", "database.url", "http.max_body_bytes", "defaults.pop_timeout", "dispatch.backoff_multiplier":
				f.Add(byte(i), text)
			}
		}
	}
	path := filepath.Join(f.TempDir(), "belfry.yaml")
	f.Fuzz(func(t *testing.T, key byte, text string) {
		if text == "" {
			return // an empty variable counts as not set
		}
		k := keys[int(key)%len(keys)]
		cfg, err := Load(Options{Environ: []string{EnvName(k.name) + "=" + text}})
		flagged, flagErr := Load(Options{Flags: map[string]string{k.name: text}})
		if err != nil {
			requireProblems(t, err)
			require.Error(t, flagErr)
			require.Equal(t, strings.ReplaceAll(err.Error(), "env "+EnvName(k.name), "flag --"+FlagName(k.name)), flagErr.Error())
			return
		}
		require.NoError(t, flagErr)
		require.EqualValues(t, k.valueIn(cfg), k.valueIn(flagged))
		requireLoadsBack(t, cfg, path)
	})
}

// requireLoadsBack prints a configuration to a file and loads it. It leaves out the secrets,
// which Print hides.
func requireLoadsBack(t *testing.T, cfg Config, path string) {
	t.Helper()
	require.NoError(t, cfg.Validate())
	cfg.Encryption.Key, cfg.Encryption.Keys = "", ""
	for _, url := range []*setting.Secret{&cfg.Database.URL, &cfg.Database.ListenURL} {
		if hideSecrets(url.Reveal()) != url.Reveal() {
			*url = ""
		}
	}
	shown := printed(t, cfg)
	require.NoError(t, os.WriteFile(path, []byte(shown), 0o600))
	back, err := Load(Options{File: path})
	require.NoError(t, err, shown)
	cfg.sources, back.sources = nil, nil
	require.Equal(t, cfg, back, shown)
}

func requireProblems(t *testing.T, err error) {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.Problems)
	for _, problem := range e.Problems {
		require.NotEmpty(t, strings.TrimSpace(problem.Error()))
	}
}

// FuzzHideSecrets checks that hideSecrets hides a password at any position in a DSN and with
// any characters.
func FuzzHideSecrets(f *testing.F) {
	for _, text := range []string{"", " ", "@", "/", "?", "#", ":", "%", "'", `\`, "&", "=", "\n", "a@b/c?d#e", "password=x", "é"} {
		f.Add("u", text)
		f.Add(text, "p")
	}
	const mark = "S3cr3t"
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	f.Fuzz(func(t *testing.T, user, password string) {
		if strings.Contains(user, mark) || strings.Contains(user, "=") {
			return // a password with = makes name=value pairs of the last DSN below
		}
		password = mark + password + mark
		for _, dsn := range []string{
			"postgres://u:" + password + "@host:5432/db?sslmode=require",
			"postgresql://host/db?user=u&password=" + strings.NewReplacer("&", "%26", "#", "%23", "%", "%25").Replace(password),
			"host=h user='" + escape.Replace(user) + "' password='" + escape.Replace(password) + "' dbname=d",
			"password = '" + escape.Replace(password) + "'",
			user + ":" + password + "@host/db",
		} {
			shown := hideSecrets(dsn)
			require.NotContains(t, shown, mark, dsn)
			require.Equal(t, shown, hideSecrets(shown), "hiding twice changes nothing")
		}
	})
}
