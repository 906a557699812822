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
	"github.com/belfry-mq/belfry/test/chaos/world"
)

func TestMain(m *testing.M) {
	if code, child := world.Child(); child {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// TestARunIsJudged makes a short run, and then falsifies what it left, one thing
// after the other: the judge must see each. The run fails, so it keeps what
// explains it.
func TestARunIsJudged(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	s := settings{seed: 1, duration: time.Second, instances: 2, faults: []string{"cut-clients"}}
	err := run(t.Context(), s, out, func(ctx context.Context, e evidence) error {
		require.NoError(t, judge(ctx, e))
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

// TestWhatAStandbyLacksIsMissed promotes a standby that has not got the last pushes
// that were acknowledged. A synchronous one would have them: see fail-over.
func TestWhatAStandbyLacksIsMissed(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	s := settings{seed: 13, duration: time.Second, instances: 2, faults: []string{"fail-over-behind"}}
	err := run(t.Context(), s, out, judge)
	keptIn(t, out.String())
	require.ErrorContains(t, err, "was answered with success, but it is not in the log")
}

// keptIn is the folder of a run that failed. It goes with the test.
func keptIn(t *testing.T, text string) string {
	t.Helper()
	kept := regexp.MustCompile(`kept in (\S+):`).FindStringSubmatch(text)
	require.NotNil(t, kept, text)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(kept[1])) })
	return kept[1]
}

// falsify shows the judge what each breach looks like, and leaves a lost message
// behind.
func falsify(ctx context.Context, t *testing.T, e evidence) {
	t.Helper()
	group := e.reads[1].Group // never consumes at once
	forgotten := e
	forgotten.operations = slices.DeleteFunc(slices.Clone(e.operations), func(o history.Operation) bool {
		return o.Kind == history.Pop && o.Group == group
	})
	require.ErrorContains(t, judge(ctx, forgotten), "delivered: ")

	silent := e
	silent.operations = slices.DeleteFunc(slices.Clone(e.operations), func(o history.Operation) bool { return o.Kind == history.Push })
	require.ErrorContains(t, judge(ctx, silent), "unpushed: ")

	left, err := remaining(ctx, e.database, e.reads)
	require.NoError(t, err)
	require.Zero(t, left)
	_, err = e.database.Exec(ctx, `UPDATE belfry.cursor c SET committed = committed - 1
		FROM belfry.partition p JOIN belfry.queue q ON q.id = p.queue_id
		WHERE c.partition_id = p.id AND q.name = $1`, e.queues[0])
	require.NoError(t, err)
	left, err = remaining(ctx, e.database, e.reads)
	require.NoError(t, err)
	readers := 0
	for _, read := range e.reads {
		if read.Queue == e.queues[0] {
			readers++
		}
	}
	// Configuring a queue makes the partition Default, too.
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

	_, err = e.database.Exec(ctx, `DELETE FROM belfry.message WHERE seq = 1`)
	require.NoError(t, err)
}

// A fault that lasts long excuses no longer waits than it can cause.
func TestAFaultExcusesWhatItCanCause(t *testing.T) {
	t.Parallel()
	long := window{begin: time.Second, end: 8 * time.Second, recovered: 10 * time.Second, Result: world.Result{Excuse: 2 * time.Second}}
	require.Equal(t, check.Window{Begin: time.Second, End: 10 * time.Second, Allowance: 2 * time.Second}, long.judged())
	short := window{begin: time.Second, end: 2 * time.Second, recovered: 3 * time.Second, Result: world.Result{Excuse: time.Hour, Silence: time.Minute}}
	require.Equal(t, check.Window{Begin: time.Second, End: 3 * time.Second, Allowance: 2 * time.Second, Silence: 2 * time.Second}, short.judged())
	require.Equal(t, check.Window{End: time.Hour}, window{begin: 0, recovered: time.Hour}.judged())
}
