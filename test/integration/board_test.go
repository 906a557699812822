package integration_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/testcert"
)

var (
	// boardSelector finds a metric of an expression and its matchers. boardMatcher finds the parts of a matcher.
	boardSelector = regexp.MustCompile(`\b((?:belfry|process)_[a-z0-9_]+)\{([^}]*)\}`)
	boardMatcher  = regexp.MustCompile(`(\w+)(=~|=)"([^"]*)"`)
	// boardGrouping finds the labels of an aggregation, and its argument.
	boardGrouping = regexp.MustCompile(`by \(([^)]*)\) \((?:rate\()?((?:belfry|process)_[a-z0-9_]+)`)
)

// boardBreaches reports what an expression of the board asks for and the text of /metrics/prometheus does not have:
// metrics, labels and values of labels. Prometheus adds the label instance.
func boardBreaches(expr, metrics string) (complaints []string) {
	has := func(format string, args ...any) {
		if !regexp.MustCompile(`(?m)^` + fmt.Sprintf(format, args...)).MatchString(metrics) {
			complaints = append(complaints, fmt.Sprintf("%s: the server has no "+format, append([]any{expr}, args...)...))
		}
	}
	for _, found := range boardSelector.FindAllStringSubmatch(expr, -1) {
		has(`%s[{ ]`, found[1])
		for _, m := range boardMatcher.FindAllStringSubmatch(found[2], -1) {
			switch {
			case m[1] == "instance":
			case m[2] == "=":
				has(`%s\{.*\b%s="%s"`, found[1], m[1], regexp.QuoteMeta(m[3]))
			default:
				has(`%s\{.*\b%s="`, found[1], m[1])
			}
		}
	}
	for _, found := range boardGrouping.FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.Split(found[1], ", ") {
			if label != "instance" {
				has(`%s\{.*\b%s="`, found[2], label)
			}
		}
	}
	return complaints
}

// Each query of the Grafana board must name metrics and labels that a running server exports.
func TestTheBoardShowsMetricsOfTheServer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/grafana/belfry.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal(text, &board))

	// Only a server whose log can drop lines has this metric, as `belfry serve` does (pkg/app/metrics.go).
	metrics := metricsWithTLS(t) + "belfry_log_dropped_total 0\n"
	queries := 0
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			queries++
			require.Empty(t, boardBreaches(q.Expr, metrics))
		}
	}
	require.Greater(t, queries, 50)
	require.Len(t, boardBreaches(`sum by (colour) (rate(belfry_push_messages_total{instance=~"a",op="x"}[5m]))`, metrics), 2)
	require.Len(t, boardBreaches(`max(belfry_missing{instance=~"a"})`, metrics), 1)
}

// metricsWithTLS returns the metrics of a server that has done some work. With TLS it exports all its metrics.
func metricsWithTLS(t *testing.T) string {
	t.Helper()
	ca, dir := testcert.NewCA(t), t.TempDir()
	pair := ca.Pair(t, 1, pkix.Name{CommonName: "server"}, time.Now().Add(time.Hour))
	s := start(t, func(cfg *config.Config) {
		cfg.HTTP.TLSCertFile = testcert.Write(t, dir, "tls.crt", pair.Cert)
		cfg.HTTP.TLSKeyFile = testcert.Write(t, dir, "tls.key", pair.Key)
	})
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(ca.PEM))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}}}
	t.Cleanup(client.CloseIdleConnections)
	call := func(method, path, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, strings.Replace(s.base, "http:", "https:", 1)+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer func() { require.NoError(t, resp.Body.Close()) }()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Less(t, resp.StatusCode, 300, string(text))
		return string(text)
	}
	call(http.MethodPost, "/api/v1/push", `{"items":[{"queue":"orders","payload":{}}]}`)
	call(http.MethodGet, "/api/v1/pop/queue/orders?consumerGroup=billing", "")
	return call(http.MethodGet, "/metrics/prometheus", "")
}
