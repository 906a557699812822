package integration_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documentedCommand matches a command of the documentation, between backticks or as a line of a block.
var documentedCommand = regexp.MustCompile("`belfry ([^`]+)`|(?m:^\\s*belfry (.+)$)")

// ofTheServer begin commands that need no server, or are the server. The tests of cmd/belfry run them.
var ofTheServer = []string{
	"attach", "attachments", "bench", "config", "detach", "dev", "doctor", "health", "import", "migrate", "reseal", "roles", "serve", "token", "version",
}

// documentedNames are the names in the documentation for what a section is about.
var documentedNames = strings.NewReplacer("QUEUE", "shop", "PARTITION", "Default", "GROUP", "billing", "TRANSACTION-ID", "a")

// documentedRuns say what each command of the documentation prints on a server with two messages, of which one is a dead letter of the
// group billing. Commands that ask get --yes. until makes the state again before each.
var documentedRuns = map[string]string{
	"cheat":                         "belfry push orders",
	"dlq list --queue QUEUE":        "billing",
	"dlq purge QUEUE --all":         "shop no 1 1 0",
	"dlq redrive QUEUE --all":       "shop billing no 1 1 0 0",
	"dlq show QUEUE TRANSACTION-ID": "no paper",
	"explain --queue QUEUE --partition PARTITION --group GROUP": "partition Default",
	"group delete GROUP":                 "billing - 1",
	"group seek GROUP QUEUE --to-end":    "billing shop - 1",
	"lag":                                "billing shop Default 1",
	"maintenance discard":                "0",
	"maintenance rejected":               "REASON",
	"maintenance retry":                  "0",
	"maintenance show":                   "PUSH-MAINTENANCE",
	"metrics --match belfry_batch":       "belfry_batch",
	"metrics --match dispatch_refused":   "dispatch_refused",
	"metrics --match inbox":              "belfry_inbox",
	"metrics --match intentions_skipped": "intentions_skipped",
	"metrics --match pool":               "belfry_pool",
	"metrics --match preflight_duration": "preflight_duration",
	"queue configure QUEUE --option retentionEnabled=true --option completedRetentionSeconds=604800": "604800",
	"waiting":                          "OLDEST-SECONDS",
	"waiting -o jsonpath='$.inbox'":    "{",
	"waiting -o jsonpath='$.listener'": "{",
}

// Every command that the documentation names for a running server does there what its section needs: it has output, and finds
// what it is about. docs/cli.md has the commands themselves: TestDocumentation.
func TestCommandsOfTheDocumentation(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		if filepath.Base(page) == "cli.md" {
			continue
		}
		for _, match := range documentedCommand.FindAllStringSubmatch(string(text), -1) {
			line := strings.Join(strings.Fields(match[1]+match[2]), " ")
			if first, _, _ := strings.Cut(line, " "); line != "…" && line != "demo" && !slices.Contains(ofTheServer, strings.TrimSuffix(first, ",")) {
				named[line] = true // demo_test.go runs demo
			}
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(documentedRuns)), "each command of the documentation has an entry in documentedRuns")
	x := newTerminal(t)
	for _, line := range slices.Sorted(maps.Keys(documentedRuns)) {
		x.run("", "queue", "delete", "shop", "--yes")
		x.run("", "push", "shop", "1", "--transaction-id", "a")
		x.run("", "push", "shop", "2", "--transaction-id", "b")
		popped := x.json("pop", "shop", "--group", "billing")
		x.run("", "ack", fmt.Sprint(member(popped, 0, "partitionId")), "a", "--group", "billing", "--status", "dlq", "--error", "no paper")
		args := strings.Fields(strings.ReplaceAll(documentedNames.Replace(line), "'", ""))
		if x.command(strings.Join(args, " ")).Flags().Lookup("yes") != nil {
			args = append(args, "--yes")
		}
		code, out, problems := x.run("", args...)
		require.Zero(t, code, "%s: %s", line, problems)
		require.Contains(t, regexp.MustCompile(" +").ReplaceAllString(out, " "), documentedRuns[line], line)
	}
}
