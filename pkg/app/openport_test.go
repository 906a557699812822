package app

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/config"
)

// If requests need no token on a port that other machines can reach, the server logs a warning. The warning names two remedies:
// tokens, and a port that only this machine can reach.
func TestAnOpenPortCausesAWarning(t *testing.T) {
	t.Parallel()
	required, optional, tokens := config.Default(), config.Default(), config.Default()
	required.HTTP.TLSClientCAFile, required.HTTP.TLSClientAuth = "/ca", "required"
	optional.HTTP.TLSClientCAFile, optional.HTTP.TLSClientAuth = "/ca", "optional"
	tokens.Auth.Enabled = true
	for _, c := range []struct {
		addr string
		cfg  config.Config
		want int
	}{
		{"0.0.0.0:1", config.Default(), 1},
		{"[::]:1", config.Default(), 1},
		{"10.1.2.3:1", optional, 1},
		{"127.0.0.1:1", config.Default(), 0},
		{"[::1]:1", config.Default(), 0},
		{"0.0.0.0:1", tokens, 0},
		{"0.0.0.0:1", required, 0},
	} {
		core, logged := observer.New(zapcore.WarnLevel)
		addr, err := net.ResolveTCPAddr("tcp", c.addr)
		require.NoError(t, err)
		warnOpen(zap.New(core), addr, c.cfg)
		require.Equal(t, c.want, logged.Len(), c.addr)
		for _, entry := range logged.All() {
			require.Contains(t, entry.Message, "auth.enabled")
			require.Contains(t, entry.Message, "127.0.0.1:1")
		}
	}
}
