package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/chaos/ticks"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

// A short run with schedules keeps its promises. Then each falsification of its messages is reported.
func TestSchedulesAreJudged(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	s := settings{seed: 2, instances: 2, schedules: 20, ticks: 100, faults: []string{"kill-server", world.StepsDatabaseClock}}
	err := runSchedules(t.Context(), s, out, func(ctx context.Context, database *pgxpool.Pool) (ticks.Verdict, error) {
		v, err := ticks.Judge(ctx, database)
		require.NoError(t, err)
		require.Empty(t, v.Broken)
		require.GreaterOrEqual(t, v.Messages, 120)
		require.Equal(t, v.Instants, v.Messages)
		for _, falsified := range []struct{ statement, rule string }{
			{`INSERT INTO chaos_ticks.tick SELECT t.transaction_id FROM chaos_ticks.tick t LIMIT 1`, "inserted twice: "},
			{`UPDATE belfry.message SET payload = '{"at": "then"}' WHERE seq = 1`, "wrong: "},
			{`UPDATE belfry.schedule SET error = 'x' WHERE name = 's1'`, "stopped: "},
			{`UPDATE belfry.message SET transaction_id = transaction_id || '/run' WHERE seq = 2`, "unexpected: "},
			{`DELETE FROM belfry.message WHERE seq = 3`, "forgotten: "},
		} {
			_, err := database.Exec(ctx, falsified.statement)
			require.NoError(t, err)
			v, err = ticks.Judge(ctx, database)
			require.NoError(t, err)
			require.Regexp(t, "(?m)^"+falsified.rule, joined(v))
		}
		return v, nil
	})
	require.ErrorContains(t, err, "forgotten: ")
	kept := regexp.MustCompile(`kept in (\S+):`).FindStringSubmatch(out.String())
	require.NotNil(t, kept, out)
	require.NoError(t, os.RemoveAll(kept[1]))
}

func joined(v ticks.Verdict) (text string) {
	for _, rule := range v.Broken {
		text += rule + "\n"
	}
	return text
}
