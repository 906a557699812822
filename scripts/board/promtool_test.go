//go:build installed

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// check returns what promtool says about expressions. JSON is YAML, so the file of rules is JSON.
func check(t *testing.T, expressions []string) (string, error) {
	t.Helper()
	rules := make([]map[string]string, len(expressions))
	for i, e := range expressions {
		// Grafana replaces this variable. The other variables are within strings.
		rules[i] = map[string]string{"record": fmt.Sprint("board:q", i), "expr": strings.ReplaceAll(e, "$__rate_interval", "5m")}
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "board", "rules": rules}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	said, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", file).CombinedOutput()
	return string(said), err
}

func TestPromtoolParsesEachQuery(t *testing.T) {
	t.Parallel()
	var expressions []string
	for _, p := range board(rows()).Panels {
		for _, q := range p.Targets {
			expressions = append(expressions, q.Expr)
		}
	}
	said, err := check(t, expressions)
	require.NoError(t, err, said)
	require.Contains(t, said, fmt.Sprint(len(expressions), " rules found"))

	said, err = check(t, []string{"sum(rate(belfry_a_total[5m])"})
	require.Error(t, err)
	require.Contains(t, said, "parse")
}
