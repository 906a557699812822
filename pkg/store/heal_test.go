package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// requireHeal requires that a heal wakes want partitions. It returns the number of announced
// cursors and whether the heal wrote the first cursor.
func (b *bench) requireHeal(want int, heard *receiver) (announced int, wrote bool) {
	b.t.Helper()
	var before, after string
	const version = `SELECT xmin::text FROM belfry.cursor ORDER BY group_id LIMIT 1`
	b.scan(version, nil, &before)
	heard.ready = nil
	healed, err := b.Heal(b.t.Context())
	require.NoError(b.t, err)
	require.Equal(b.t, want, healed, "partitions that the heal woke")
	b.scan(version, nil, &after)
	return len(heard.ready), before != after
}

// Every heal examines a cursor that waits for the end of a retry delay or for a delayed message.
// The heal counts, writes and announces the cursor only if its ready_at changes.
func TestAHealCountsOnlyTheCursorsItWakes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	heard := &receiver{}
	b.Observe(heard)
	quiet := func(why string) {
		t.Helper()
		announced, wrote := b.requireHeal(0, heard)
		require.Zero(t, announced, why)
		require.False(t, wrote, why)
	}
	loud := func(why string) {
		t.Helper()
		announced, wrote := b.requireHeal(1, heard)
		require.Equal(t, 1, announced, why)
		require.True(t, wrote, why)
	}
	b.failRedriven(0, "a")
	b.option("delayed_processing = 3600")
	b.push("p", "1")
	quiet("the retry delay ends before the delay of the message")
	b.option("delayed_processing = 60")
	loud("the changed delay did not wake the cursor")
	quiet("the delay of the message ends before the retry delay")
	b.option("paused = true")
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	quiet("the queue is paused")
	b.option("paused = false")
	loud("the cursor had no ready_at")
	quiet("the cursor has its ready_at")
	b.option("delayed_processing = 0")
	loud("the message is due")
	require.Equal(t, []string{"1"}, transactionIDs(b.pop(request("g", 9))))
	quiet("the cursor is leased")
}

func TestAHealCountsPartitions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	heard := &receiver{}
	b.Observe(heard)
	b.register("g", "h")
	b.push("p", "1")
	b.push("p2", "1")
	b.exec(`UPDATE belfry.cursor SET ready_at = NULL`)
	announced, _ := b.requireHeal(2, heard)
	require.Equal(t, 4, announced, "two groups in each partition")
}
