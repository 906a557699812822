package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/belfry-mq/belfry/test/chaos/check"
	"github.com/belfry-mq/belfry/test/chaos/history"
	"github.com/belfry-mq/belfry/test/chaos/principals"
	"github.com/belfry-mq/belfry/test/chaos/workload"
	"github.com/belfry-mq/belfry/test/chaos/world"
)

func TestMain(m *testing.M) {
	if code, child := world.Child(); child {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// TestARunIsJudged makes a short run and falsifies its evidence in several ways. The judge must report each
// falsification. The run then fails and keeps its folder.
func TestARunIsJudged(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	s := settings{seed: 1, duration: time.Second, instances: 2, faults: []string{"cut-clients"}}
	err := run(t.Context(), s, out, func(ctx context.Context, e evidence) error {
		if err := judge(ctx, e); err != nil {
			require.True(t, onlyLate(err), "%v", err) // a busy machine may break time limits
		}
		falsify(ctx, t, e)
		return judge(ctx, e)
	})
	require.ErrorContains(t, err, "deleted: ")
	text := out.String()
	require.Contains(t, text, "cut-clients")
	require.Contains(t, text, "drained in")
	kept := keptIn(t, text)
	seed, err := os.ReadFile(filepath.Join(kept, "seed.txt"))
	require.NoError(t, err)
	require.Contains(t, string(seed), "--seed 1 ")
	require.FileExists(t, filepath.Join(kept, "server-1.log"))
	require.FileExists(t, filepath.Join(kept, "offending.jsonl"))
	require.NoDirExists(t, filepath.Join(kept, "cluster"))
	file, err := os.Open(filepath.Join(kept, "history.jsonl"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	operations, err := history.Read(file)
	require.NoError(t, err)
	require.NotEmpty(t, operations)
}

// TestALostPushIsReported promotes an asynchronous standby that lacks the last acknowledged pushes. The promotion
// loses these pushes.
func TestALostPushIsReported(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	s := settings{seed: 13, duration: time.Second, instances: 2, faults: []string{"fail-over-behind"}}
	err := run(t.Context(), s, out, judge)
	keptIn(t, out.String())
	require.ErrorContains(t, err, "was answered with success, but the message is not in the log")
}

// keptIn returns the folder that a failed run printed, and removes the folder after the test.
func keptIn(t *testing.T, text string) string {
	t.Helper()
	kept := regexp.MustCompile(`kept in (\S+):`).FindStringSubmatch(text)
	require.NotNil(t, kept, text)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(kept[1])) })
	return kept[1]
}

// falsify gives the judge falsified histories, and finally deletes messages from the table.
func falsify(ctx context.Context, t *testing.T, e evidence) {
	t.Helper()
	group := e.reads[1].Group // this group never uses autoAck
	forgotten := e
	forgotten.operations = slices.DeleteFunc(slices.Clone(e.operations), func(o history.Operation) bool {
		return o.Kind == history.Pop && o.Group == group
	})
	require.ErrorContains(t, judge(ctx, forgotten), "delivered: ")

	silent := e
	silent.operations = slices.DeleteFunc(slices.Clone(e.operations), func(o history.Operation) bool { return o.Kind == history.Push })
	require.ErrorContains(t, judge(ctx, silent), "unpushed: ")

	left, err := workload.Remaining(ctx, e.database, e.reads)
	require.NoError(t, err)
	require.Zero(t, left)
	_, err = e.database.Exec(ctx, `UPDATE belfry.cursor c SET committed = committed - 1
		FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id
		WHERE c.partition_id = p.id AND q.name = $1`, e.queues[0])
	require.NoError(t, err)
	left, err = workload.Remaining(ctx, e.database, e.reads)
	require.NoError(t, err)
	readers := 0
	for _, read := range e.reads {
		if read.Queue == e.queues[0] {
			readers++
		}
	}
	// The configuration of a queue also creates the partition Default.
	require.Equal(t, int64((1+partitions)*readers), left)

	changed := e
	changed.operations = slices.Clone(e.operations)
	for i, o := range changed.operations {
		if o.Kind == history.Pop && o.Outcome == history.Done && len(o.Items) > 0 {
			items := slices.Clone(o.Items)
			items[0].MessageID = "another"
			changed.operations[i].Items = items
			break
		}
	}
	require.ErrorContains(t, judge(ctx, changed), "dedup: ")

	require.NoError(t, findMark(ctx, e.database, principals.Mark))
	_, err = e.database.Exec(ctx, `UPDATE belfry.message SET payload = to_json($1::text) WHERE seq = 1`, "of an "+principals.Mark)
	require.NoError(t, err)
	require.ErrorContains(t, findMark(ctx, e.database, principals.Mark), "contain the mark of the intruders")

	_, err = e.database.Exec(ctx, `DELETE FROM belfry.message WHERE seq = 1`)
	require.NoError(t, err)
}

// The allowance of a fault is at most its excuse, and at most its duration.
func TestAllowanceOfAFaultIsLimited(t *testing.T) {
	t.Parallel()
	long := window{begin: time.Second, end: 8 * time.Second, recovered: 10 * time.Second, Result: world.Result{Excuse: 2 * time.Second}}
	require.Equal(t, check.FaultWindow{Begin: time.Second, End: 10 * time.Second, Allowance: 2 * time.Second}, long.judged())
	short := window{begin: time.Second, end: 2 * time.Second, recovered: 3 * time.Second, Result: world.Result{Excuse: time.Hour, SQLAllowance: time.Minute}}
	require.Equal(t, check.FaultWindow{Begin: time.Second, End: 3 * time.Second, Allowance: 2 * time.Second, SQLAllowance: 2 * time.Second}, short.judged())
	require.Equal(t, check.FaultWindow{End: time.Hour}, window{begin: 0, recovered: time.Hour}.judged())
}
