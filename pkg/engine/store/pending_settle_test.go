package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// Each commit of a SQL consumer announces its cursor. The service settles cursors that are
// announced in quick succession together, some at a time, and it settles every one.
func TestAnnouncedCursorsAreSettledTogether(t *testing.T) {
	t.Parallel()
	const cursors, many = 200, 1000
	b := newBench(t)
	b.exec(`CREATE TABLE public.settled (cursors bigint)`)
	b.exec(`CREATE OR REPLACE FUNCTION belfry.settle_drained(p_partitions bigint[], p_groups bigint[]) RETURNS bigint LANGUAGE sql AS $$
		INSERT INTO public.settled VALUES (cardinality(p_partitions)); SELECT 0::bigint $$`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- b.Run(ctx) }()
	often := time.NewTicker(time.Millisecond)
	defer often.Stop()
	for partition := range int64(cursors) {
		<-often.C
		b.OnReady([]queue.Ready{{Group: 1, Partition: partition + 1}}, events.SQL)
	}
	for partition := range int64(many) {
		b.OnReady([]queue.Ready{{Group: 2, Partition: partition + 1}}, events.SQL)
	}
	var calls, settled, most int64
	require.Eventually(t, func() bool {
		b.scan(`SELECT count(*), coalesce(sum(cursors), 0)::bigint, coalesce(max(cursors), 0) FROM public.settled`, nil, &calls, &settled, &most)
		return settled == cursors+many
	}, time.Minute, 5*time.Millisecond)
	require.LessOrEqual(t, calls, 1+int64(time.Since(began)/store.SettleInterval))
	require.Less(t, most, int64(many))
	cancel()
	require.NoError(t, <-done)
}

// An announced cursor may have new messages. settle_drained does not lock it then, so a SQL
// consumer can pop from it meanwhile.
func TestSettleDoesNotLockACursorWithMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "m")
	settling := b.begin(b.connect())
	var settled int64
	require.NoError(t, settling.QueryRow(t.Context(),
		`SELECT belfry.settle_drained(array_agg(partition_id), array_agg(group_id)) FROM belfry.cursor`).Scan(&settled))
	require.Zero(t, settled)
	require.Len(t, b.sqlPop(b.connect(), "g", 1, 1), 1)
}
