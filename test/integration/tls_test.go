package integration_test

import (
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/pkg/cli/bench"
	"github.com/belfry-mq/belfry/test/testcert"
)

// A server with TLS must deliver each message once. A client that does not trust the CA must not connect.
func TestServerWithTLS(t *testing.T) {
	t.Parallel()
	ca, dir := testcert.NewCA(t), t.TempDir()
	pair := ca.Pair(t, 1, pkix.Name{CommonName: "server"}, time.Now().Add(time.Hour))
	s := start(t, func(cfg *config.Config) {
		cfg.HTTP.TLSCertFile = testcert.Write(t, dir, "tls.crt", pair.Cert)
		cfg.HTTP.TLSKeyFile = testcert.Write(t, dir, "tls.key", pair.Key)
	})
	settings := bench.Defaults()
	settings.URL = strings.Replace(s.base, "http:", "https:", 1)
	settings.Scenarios, settings.Connections = []string{"end-to-end"}, 4
	settings.Duration, settings.Warmup = 100*time.Millisecond, 0
	_, err := bench.Run(t.Context(), settings)
	require.ErrorContains(t, err, "unknown authority")
	settings.CAFile = testcert.Write(t, dir, "ca.crt", ca.PEM)
	report, err := bench.Run(t.Context(), settings)
	require.NoError(t, err)
	require.True(t, report.Verified)
}
