package app

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/config"
)

// The default settings cause no warning. Settings that contradict each other cause a warning.
func TestContradictionsAreLogged(t *testing.T) {
	t.Parallel()
	const keys, connections = "auth.enabled", "http.max_connections"
	for _, c := range []struct {
		change func(cfg *config.Config)
		logged string
	}{
		{func(*config.Config) {}, ""},
		{func(cfg *config.Config) { cfg.Auth.Secret = "s" }, keys},
		{func(cfg *config.Config) { cfg.Auth.PublicKey = "k" }, keys},
		{func(cfg *config.Config) { cfg.Auth.JWKSURL = "https://a" }, keys},
		{func(cfg *config.Config) { cfg.Auth.Secret, cfg.Auth.Enabled = "s", true }, ""},
		{func(cfg *config.Config) { cfg.HTTP.MaxConnections = cfg.Dispatch.MostRequests() }, connections},
		{func(cfg *config.Config) { cfg.HTTP.MaxConnections = cfg.Dispatch.MostRequests() + 1 }, ""},
	} {
		cfg := config.Default()
		c.change(&cfg)
		core, logs := observer.New(zap.WarnLevel)
		warn(&cfg, zap.New(core))
		if c.logged == "" {
			require.Empty(t, logs.All())
			continue
		}
		require.Len(t, logs.All(), 1)
		require.Contains(t, logs.All()[0].Message, c.logged)
	}
}
