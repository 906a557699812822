package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/limits"
)

// A short run with limited groups keeps its promises. Then each falsification breaks its own rule and no other.
func TestLimitsAreJudged(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	s := settings{seed: 2, instances: 2, limits: true, duration: time.Second, faults: []string{"kill-server", "cut-database"}}
	err := runLimited(t.Context(), s, out, func(ctx context.Context, database *pgxpool.Pool, from, to time.Time) (limits.Verdict, error) {
		v, err := limits.Judge(ctx, database, from, to)
		require.NoError(t, err)
		require.Empty(t, v.Broken)
		require.Greater(t, v.Leases, 50)
		require.Greater(t, v.Messages, 50)
		for _, falsified := range []struct{ statement, rule string }{
			{`UPDATE limitcheck.lease_change SET live = 6 WHERE id = (SELECT min(c.id) FROM ` + few + ` AND c.lease IS NOT NULL)`, "concurrency: "},
			{`UPDATE limitcheck.lease_change SET messages = 10000 WHERE id = (SELECT min(c.id) FROM ` + paced + ` AND c.lease IS NOT NULL)`, "rate: "},
			{`UPDATE belfry.limit_bucket SET full_at = clock_timestamp() + interval '1 h', taken_at = clock_timestamp() + interval '1 h'`, "leaked: "},
		} {
			tx, err := database.Begin(ctx)
			require.NoError(t, err)
			_, err = tx.Exec(ctx, falsified.statement)
			require.NoError(t, err)
			require.NoError(t, tx.Commit(ctx))
			before := len(v.Broken)
			v, err = limits.Judge(ctx, database, from, to)
			require.NoError(t, err)
			require.Len(t, v.Broken, before+1, strings.Join(v.Broken, "\n"))
			require.Regexp(t, "(?m)^"+falsified.rule, strings.Join(v.Broken, "\n"))
		}
		return v, nil
	})
	require.ErrorContains(t, err, "leaked: ")
	kept := regexp.MustCompile(`kept in (\S+):`).FindStringSubmatch(out.String())
	require.NotNil(t, kept, out)
	require.NoError(t, os.RemoveAll(kept[1]))
}

const (
	few   = `limitcheck.lease_change c JOIN belfry.consumer_group g ON g.id = c.group_id WHERE g.name = 'few'`
	paced = `limitcheck.lease_change c JOIN belfry.consumer_group g ON g.id = c.group_id WHERE g.name = 'paced'`
)
