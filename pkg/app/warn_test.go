package app

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/config"
)

// The default settings do not contradict each other. Some others are logged.
func TestContradictionsAreLogged(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(cfg *config.Config){
		"":                     func(*config.Config) {},
		"auth.enabled":         func(cfg *config.Config) { cfg.Auth.Secret = "s" },
		"http.max_connections": func(cfg *config.Config) { cfg.HTTP.MaxConnections = cfg.Dispatch.MaxIntentions },
	} {
		cfg := config.Default()
		change(&cfg)
		core, logs := observer.New(zap.WarnLevel)
		warn(&cfg, zap.New(core))
		if want == "" {
			require.Empty(t, logs.All())
			continue
		}
		require.Len(t, logs.All(), 1)
		require.Contains(t, logs.All()[0].Message, want)
	}
}
