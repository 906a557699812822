package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBenchRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"bench":                         "no scenario is named: choose from push, pop",
		"bench pusch":                   `there is no scenario "pusch"`,
		"bench push --batch 20000":      "--batch is 20000: give at most 10000",
		"bench idle --rate 5":           "--rate has no meaning for idle: leave it out",
		"bench fan-out --connections 3": "fan-out needs at least 11",
	} {
		code, stdout, stderr := belfry(t, strings.Fields(line)...)
		require.Equal(t, 2, code, line)
		require.Contains(t, stderr, want, line)
		require.Empty(t, stdout, line)
	}
}

func TestBenchNeedsAServer(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := belfry(t, "bench", "push", "--server", "http://127.0.0.1:1")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "does --server lead to a server?")
	require.Empty(t, stdout)

	code, _, stderr = belfry(t, "bench", "push", "--json", filepath.Join(t.TempDir(), "no", "such", "folder"))
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "creating the file of --json")

	code, _, stderr = belfry(t, "bench", "push", "--baseline", "--database-url", "")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--baseline needs a database")
}
