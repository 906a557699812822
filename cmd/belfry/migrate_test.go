package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/postgres/migrate"
)

func TestMigrateRefusesMistypedLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"migrate upp":             `unknown command "upp", did you mean up?`,
		"migrate up 3":            `unknown command "3" for "belfry migrate up"`,
		"migrate down two":        `"two" is not a whole number of at least 1`,
		"migrate down 0":          `"0" is not a whole number of at least 1`,
		"migrate down 1 2":        "accepts at most 1 arg",
		"migrate force":           "accepts 1 arg",
		"migrate force --yes 1":   "unknown flag: --yes",
		"migrate force x":         `"x" is not a whole number of at least 0`,
		"migrate status extra":    "unknown command",
		"migrate plan --sql=what": "invalid argument",
	} {
		code, stdout, stderr := belfry(t, strings.Fields(line)...)
		require.Equal(t, 2, code, line)
		require.Contains(t, stderr, want, line)
		require.Empty(t, stdout, line)
	}
}

func TestMigrateWithoutDatabaseSaysWhatToSet(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"up", "down --yes", "status", "force 1", "plan"} {
		code, _, stderr := belfry(t, append([]string{"migrate", "--database-url", ""}, strings.Fields(line)...)...)
		require.Equal(t, 1, code, line)
		require.Contains(t, stderr, "BELFRY_DATABASE_URL", line)
		require.NotContains(t, stderr, "--help", "the command line was right")
	}
}

func TestMigrateDownAsksForConfirmation(t *testing.T) {
	t.Parallel()
	// The standard input of a test is not a terminal. The command fails before it connects to the database.
	code, _, stderr := belfry(t, "migrate", "down", "--database-url", "postgres://u@127.0.0.1:1/d")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "destroys the data")
	require.Contains(t, stderr, "--yes")

	require.NoError(t, readYes(t.Context(), strings.NewReader("yes\n")))
	for _, typed := range []string{"", "y\n", "no\n", "yes please\n"} {
		require.ErrorContains(t, readYes(t.Context(), strings.NewReader(typed)), "nothing was changed", typed)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, readYes(ended, blocked{done: t.Context().Done()}), context.Canceled)
}

// blocked is a terminal without input until done is closed.
type blocked struct{ done <-chan struct{} }

func (b blocked) Read([]byte) (int, error) {
	<-b.done
	return 0, context.Canceled
}

func TestMigratePrints(t *testing.T) {
	t.Parallel()
	steps := []migrate.Step{{Version: 2, Name: "two", SQL: "SELECT 2;\n\n"}, {Version: 3, Name: "three", SQL: "SELECT 3"}}
	for want, text := range map[string]string{
		"000002 two\n000003 three\n":                                planText(steps, false),
		"-- 000002 two\nSELECT 2;\n\n-- 000003 three\nSELECT 3\n\n": planText(steps, true),
		"Nothing to run: the schema is at its latest version.\n":    planText(nil, false),
		"-- Nothing to run: the schema is at its latest version.\n": planText(nil, true),
		"version    1\nlatest     3\ndirty      yes\nmigrating  pid 7, application \"a\"\npending    000002 two\npending    000003 three\n": statusText(
			migrate.Status{Version: 1, Latest: 3, Dirty: true, Pending: steps, Migrating: &migrate.Holder{PID: 7, Application: "a"}}),
		"version    3\nlatest     3\ndirty      no\npending    none\n": statusText(migrate.Status{Version: 3, Latest: 3}),
	} {
		require.Equal(t, want, text)
	}
}
