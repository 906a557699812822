package app_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/app"
	"github.com/belfry-mq/belfry/test/pgtest"
)

const mark = "c0ffee5ec4e7"

// withMarks returns settings with a marker in every secret.
func withMarks(t *testing.T, dsn string) config.Config {
	t.Helper()
	at, err := url.Parse(dsn)
	require.NoError(t, err)
	at.User = url.UserPassword(at.User.Username(), mark) // the test clusters trust every password
	cfg := config.Default()
	cfg.Database.URL, cfg.Database.ListenURL = setting.Secret(at.String()), setting.Secret(at.String())
	cfg.Encryption.Key = setting.Secret((strings.Repeat(mark, 6))[:64])
	cfg.Encryption.Keys = "ring:" + cfg.Encryption.Key
	cfg.HTTP.Addr, cfg.HTTP.DrainDelay = "127.0.0.1:0", 0
	return cfg
}

// No log line at any level and no answer of a running server shows a secret.
func TestServerShowsNoSecret(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&out)), zap.DebugLevel))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var answers strings.Builder
	err := app.Run(ctx, withMarks(t, pgtest.Database(t)), log, func(addr net.Addr) {
		defer stop()
		for _, call := range []struct{ method, path, body string }{
			{"POST", "/api/v1/configure", `{"queue":"q","options":{"encryptionEnabled":true}}`}, {"POST", "/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`},
			{"GET", "/health", ""}, {"GET", "/readyz", ""}, {"GET", "/metrics/prometheus", ""}, {"GET", "/openapi.json", ""},
			{"GET", "/api/v1/status/dispatcher", ""}, {"GET", "/api/v1/status/queues/q", ""}, {"GET", "/api/v1/resources/overview", ""},
			{"GET", "/api/v1/pop/queue/q", ""}, {"GET", "/nothing", ""}, {"POST", "/api/v1/push", "{"},
		} {
			req, err := http.NewRequestWithContext(ctx, call.method, "http://"+addr.String()+call.path, strings.NewReader(call.body))
			if !assertNoError(t, err) {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if !assertNoError(t, err) {
				return
			}
			_, _ = io.Copy(&answers, resp.Body)
			_ = resp.Body.Close()
		}
	})
	http.DefaultClient.CloseIdleConnections()
	require.NoError(t, err)
	require.Contains(t, answers.String(), `"status":"healthy"`)
	require.NotContains(t, out.String()+answers.String(), mark)
}

func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// The start error and the log of a server show no secret.
func TestStartErrorsShowNoSecret(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*config.Config){
		"invalid URL":   func(cfg *config.Config) { cfg.Database.URL = "postgres://u:" + mark + "@h:port/d" },
		"invalid pairs": func(cfg *config.Config) { cfg.Database.URL = "host=h password='" + mark },
		"neither form":  func(cfg *config.Config) { cfg.Database.URL = mark },
		"unescaped":     func(cfg *config.Config) { cfg.Database.URL = "postgres://u:" + mark + "/x@h/d" },
		"unknown mode":  func(cfg *config.Config) { cfg.Database.URL = "postgres://u:" + mark + "@h/d?sslmode=x" },
		"password":      func(cfg *config.Config) { cfg.Database.URL = "postgres://h/d?sslmode=x&sslpassword=" + mark },
		"two words":     func(cfg *config.Config) { cfg.Database.URL = "host=h password=a " + mark + " dbname=d" },
		"no number":     func(cfg *config.Config) { cfg.Database.URL = "host=h connect_timeout=" + mark },
		"no server":     func(cfg *config.Config) { cfg.Database.URL = "postgres://u:" + mark + "@127.0.0.1:1/d" },
	} {
		var out bytes.Buffer
		log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(&out)), zap.DebugLevel))
		cfg := withMarks(t, "postgres://u@127.0.0.1:1/d")
		edit(&cfg)
		cfg.Database.StartTimeout = 100 * time.Millisecond
		err := app.Run(t.Context(), cfg, log, func(net.Addr) {})
		require.Error(t, err, name)
		require.NotContains(t, out.String()+err.Error(), mark, name)
	}
}
