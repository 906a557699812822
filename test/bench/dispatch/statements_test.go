package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/cli/bench/load"
	"github.com/belfry-mq/belfry/sql"
)

func TestEveryQueryFileHasAUniqueFirstLine(t *testing.T) {
	t.Parallel()
	require.Len(t, openings, len(sql.Names()), "two files with the same first line could not be told apart")
	for _, name := range []string{"engine/store/preflight", "engine/store/claim"} {
		require.Equal(t, name, statementName(sql.Query(name)))
	}
}

func TestStatementNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, canary, statementName("SELECT pg_notify($1, payload) FROM unnest($2) AS payload"))
	require.Equal(t, "SELECT 1", statementName("SELECT 1"))
	require.Len(t, statementName("SELECT\n  a_column, another_column, a_third_column FROM belfry.message WHERE id = $1"), 63)
	for text, frame := range map[string]bool{
		"begin": true, "BEGIN ISOLATION LEVEL SERIALIZABLE": true, "COMMIT;": true, "rollback": true, "SELECT commit": false, "committed": false,
	} {
		require.Equal(t, frame, isFrame(text), text)
	}
}

func TestStatementSums(t *testing.T) {
	t.Parallel()
	all := []load.Statement{
		{Text: "engine/store/claim", Calls: 4, Spent: 2 * time.Millisecond}, {Text: canary, Calls: 3}, {Text: "engine/store/preflight", Calls: 1},
	}
	require.Equal(t, 5, total(withoutCanaries(all)))
	require.Len(t, all, 3, "withoutCanaries must not change its argument")
	require.Equal(t, 5, callsOf(all, "engine/store/claim", "engine/store/preflight"))
	require.Equal(t, 0, callsOf(all, "engine/store/append"))
	require.Equal(t, "engine/store/claim 2.00 (0.50 ms)", describe(all[:1], 2))
	require.Equal(t, "4 x engine/store/claim, 1 x engine/store/preflight", list(withoutCanaries(all)))
}

func TestFurther(t *testing.T) {
	t.Parallel()
	require.Equal(t, 3, further(1, 3, 1))
	require.Equal(t, 0, further(1, 0, 1))
	require.Equal(t, 998, further(998, 999, 999))
}
