package integration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command that deletes asks with the number of what it deletes. Without --yes it deletes nothing.
func TestCommandsSayWhatTheyDelete(t *testing.T) {
	x := newTerminal(t)
	x.run("", "push", "shop", "1", "--transaction-id", "a")
	x.run("", "push", "shop", "2", "--transaction-id", "b")
	x.deadLetter("shop", "g")
	for line, says := range map[string]string{
		"queue delete shop":                     "It has 2 messages, 1 partition and 1 dead letter.",
		"group delete g":                        "It has positions in 1 partition of 1 queue, with 1 unfinished message and 1 dead letter.",
		"group delete g --queue shop":           "It has positions in 1 partition of 1 queue, with 1 unfinished message and 1 dead letter.",
		"group seek g shop --to-end":            "It receives 0 messages again, and skips 1 message. Live leases that end: 0.",
		"dlq purge shop --all":                  "Counted: 1. Later ones stay.",
		"dlq redrive shop --all":                "Counted: 1. Later ones stay.",
		"dlq redrive shop --all --to-queue lot": "\"lot\" does not exist",
	} {
		code, _, problems := x.run("", strings.Fields(line)...)
		require.NotZero(t, code, line)
		require.Contains(t, problems, says, line)
	}
	x.table("COUNT\n1", "dlq", "count", "shop")
	x.table("COUNT\n0", "dlq", "count", "shop", "--from", "2030-01-01T00:00:00Z")
}

// A purge with --save deletes nothing before the file has all of it. It writes no existing file.
func TestAPurgeSavesFirst(t *testing.T) {
	x := newTerminal(t)
	for _, id := range []string{"a", "b"} {
		x.run("", "push", "shop", "1", "--transaction-id", id)
		x.deadLetter("shop", "g")
	}
	old := filepath.Join(t.TempDir(), "old")
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))
	for _, file := range []string{old, filepath.Join(t.TempDir(), "none", "new")} {
		code, _, problems := x.run("", "dlq", "purge", "shop", "--all", "--yes", "--save", file)
		require.NotZero(t, code, problems)
		require.Contains(t, problems, "creating the file of --save")
	}
	x.table("COUNT\n2", "dlq", "count", "shop")
	file := filepath.Join(t.TempDir(), "removed.ndjson")
	x.table("QUEUE DRY-RUN MATCHED PURGED REMAINING\nshop no 2 2 0", "dlq", "purge", "shop", "--all", "--yes", "--save", file)
	x.table("COUNT\n0", "dlq", "count", "shop")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	require.Len(t, lines, 2)
	for _, line := range lines {
		var saved letter
		require.NoError(t, json.Unmarshal([]byte(line), &saved))
		require.NotEmpty(t, saved.TransactionID)
	}
}
