package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// planned finds a command of a page and its output.
var planned = regexp.MustCompile("(?s)```\n\\$ belfry (bench plan[^\n]*)\n(.*?)```")

// The tables of docs/sizing.md must be what the command prints.
func TestSizingHasTheOutputOfBenchPlan(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/sizing.md")
	require.NoError(t, err)
	found := planned.FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(found), 3)
	for _, block := range found {
		code, stdout, stderr := belfry(t, strings.Fields(block[1])...)
		require.Zero(t, code, stderr)
		require.Equal(t, stdout, block[2], "docs/sizing.md: run belfry %s", block[1])
	}
}

func TestBenchPlanRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"bench plan --rate 0":            "--rate is 0: give messages per second",
		"bench plan --batch 20000":       "--batch is 20000: give 1 to 10000",
		"bench plan --utilization 101":   "--utilization is 101: give 1 to 100",
		"bench plan -o jsonpath=nothing": "jsonpath",
		"bench plan push":                "unknown command",
	} {
		code, stdout, stderr := belfry(t, strings.Fields(line)...)
		require.Equal(t, 2, code, line)
		require.Contains(t, stderr, want, line)
		require.Empty(t, stdout, line)
	}
	code, stdout, stderr := belfry(t, "bench", "plan", "-q")
	require.Zero(t, code, stderr)
	require.Empty(t, stdout)
}

// The page must have each setting of docker-compose.yml with its value.
func TestSizingHasTheSettingsOfTheComposeFile(t *testing.T) {
	t.Parallel()
	compose, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/sizing.md")
	require.NoError(t, err)
	settings := regexp.MustCompile(`(?m)^ +- -c\n(?: +#.*\n)* +- ([a-z_]+)=(\S+)$`).FindAllStringSubmatch(string(compose), -1)
	require.Greater(t, len(settings), 8)
	for _, s := range settings {
		require.Contains(t, string(page), "| `"+s[1]+"` | `"+s[2]+"` |")
	}
}
