package live_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/access/audit"
	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/insight/live"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

// One statement finds the groups that are behind, also while a consumer holds the messages, the groups with dead
// letters, and the instant at which the next group gets behind.
func TestTheDatabaseFindsGroupsBeyondAThreshold(t *testing.T) {
	t.Parallel()
	pool := enginetest.Pool(t, pgtest.Database(t))
	s := enginetest.Store(t, pool, func(c *store.Config) { c.Defaults = queue.DefaultDefaults() })
	exec := func(statement string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), statement, args...)
		require.NoError(t, err)
	}
	push := func(name, id string, old time.Duration) {
		t.Helper()
		_, err := s.Push(t.Context(), []queue.PushItem{{Queue: name, Partition: "p", TransactionID: id, Payload: []byte("1")}})
		require.NoError(t, err)
		exec(`UPDATE belfry.message SET created_at = now() - make_interval(secs => $2) WHERE transaction_id = $1`, id, old.Seconds())
	}
	pop := func(name string) queue.Delivery {
		t.Helper()
		d, err := s.Pop(t.Context(), &queue.PopRequest{Queue: name, Group: "g", Batch: 10, Partitions: 1})
		require.NoError(t, err)
		return d
	}
	ack := func(d *queue.Delivery, status queue.AckStatus) {
		t.Helper()
		m := d.Messages[0]
		results, err := s.Ack(t.Context(), []queue.AckItem{{TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: "g", Status: status}})
		require.NoError(t, err)
		require.True(t, results[0].Success)
	}
	for _, name := range []string{"leased", "ready", "done", "dead", "young", "empty"} {
		push(name, name+" first", 0)
		d := pop(name)
		status := queue.AckCompleted
		if name == "dead" {
			status = queue.AckDead
		}
		ack(&d, status)
	}
	push("leased", "l", time.Hour)
	pop("leased")
	push("ready", "r", 2*time.Hour)
	push("done", "d", time.Hour)
	done := pop("done")
	ack(&done, queue.AckCompleted)
	push("young", "y", 10*time.Second)

	database := live.NewDatabase(pool, audit.NewLog(pool, zap.NewNop()))
	shown := func(lag time.Duration, dead int) (list []string) {
		t.Helper()
		found, err := database.Groups(t.Context(), lag, dead)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), found.Now, time.Minute)
		for _, g := range found.List {
			require.Equal(t, "g", g.Group)
			list = append(list, fmt.Sprint(g.Queue, " ", g.Age.Round(time.Hour), " ", g.Behind, " ", g.DeadLetters))
		}
		if found.HasNext {
			list = append(list, fmt.Sprint("next in about ", found.NextIn.Round(time.Minute)))
		}
		return list
	}
	require.Equal(t, []string{"ready 2h0m0s true false", "leased 1h0m0s true false", "dead 0s false true", "next in about 5m0s"}, shown(5*time.Minute+10*time.Second, 1))
	require.Equal(t, []string{"dead 0s false true"}, shown(0, 1))
	require.Empty(t, shown(0, 0))
}
