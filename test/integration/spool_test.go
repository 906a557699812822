package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func inSpool(dir string) func(*config.Config) {
	return func(cfg *config.Config) { cfg.Spool.Dir = dir }
}

func withoutKey(cfg *config.Config) { cfg.Encryption.Key = "" }

func (c client) statuses(items ...item) (statuses []string) {
	c.t.Helper()
	for _, p := range c.push(items...).ok(http.StatusCreated) {
		statuses = append(statuses, p.Status)
	}
	return statuses
}

// untilStored waits until no instance keeps a message on its disk.
func (c client) untilStored() {
	c.t.Helper()
	until(c.t, "the spools are empty", func() bool { return c.maintenance().BufferedMessages == 0 })
}

// Pushes during push maintenance must be kept encrypted on the disk, also across a restart. When maintenance ends, they
// must be stored once and in order.
func TestPushesAreKeptDuringMaintenance(t *testing.T) {
	t.Parallel()
	dsn, dir := pgtest.Database(t), t.TempDir()
	other := startOn(t, dsn).client(t)
	s := startOn(t, dsn, inSpool(dir))
	c := s.client(t)
	c.configure("q", object{"encryptionEnabled": true}).ok(http.StatusOK)
	c.switchTo(maintenancePath, "true")
	text := func(of string) item {
		return item{Queue: "q", TransactionID: of, Payload: json.RawMessage(`{"b":"confidential ` + of + `","a":1}`)}
	}
	require.Equal(t, []string{"buffered", "buffered", "buffered"}, c.statuses(text("1"), text("2"), text("2")))
	require.Equal(t, []string{"buffered"}, c.statuses(text("3")))
	require.Equal(t, http.StatusNoContent, c.pop("q", "").Status)
	until(t, "the other instance knows the number of buffered messages", func() bool { return other.maintenance().BufferedMessages == 4 })
	require.True(t, c.maintenance().BufferHealthy)
	file, err := os.ReadFile(filepath.Join(dir, "spool.db"))
	require.NoError(t, err)
	require.NotContains(t, string(file), "confidential")

	require.NoError(t, s.stop(t))
	c = startOn(t, dsn, inSpool(dir)).client(t)
	require.Equal(t, 4, c.maintenance().BufferedMessages)
	other.switchTo(maintenancePath, "false")
	other.untilStored()
	d := c.pop("q", "batch=9").ok(http.StatusOK)
	require.Equal(t, []string{"1", "2", "3"}, d.ids())
	require.Equal(t, string(text("1").Payload), string(d.Messages[0].Data))
	until(t, "the empty file is removed", func() bool {
		_, err := os.Stat(filepath.Join(dir, "spool.db"))
		return os.IsNotExist(err)
	})
	require.Equal(t, []string{"queued"}, c.statuses(text("4")))
	c.switchTo(maintenancePath, "true")
	require.Equal(t, []string{"buffered"}, c.statuses(text("5")), "new maintenance must create the file again")
}

// A message that the database refuses must be listed with the reason and can be retried. It must not delay other messages.
// If a queue is full, its messages stay on the disk, and further pushes to the queue are buffered behind them.
func TestAMessageThatCannotBeStoredDelaysNoOtherMessage(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Database(t)
	withKey := startOn(t, dsn).client(t)
	withKey.configure("sealed", object{"encryptionEnabled": true}).ok(http.StatusOK)
	withKey.configure("full", object{"maxSize": 1}).ok(http.StatusOK)
	withKey.pushIDs("full", "", "0")
	c := startOn(t, dsn, withoutKey).client(t)
	c.switchTo(maintenancePath, "true")
	for i := range 3 {
		id := fmt.Sprint(i + 1)
		c.push(item{Queue: "sealed", TransactionID: id, Payload: json.RawMessage(id)}, item{Queue: "full", TransactionID: id},
			item{Queue: "open", TransactionID: id}).ok(http.StatusCreated)
	}
	c.switchTo(maintenancePath, "false")
	until(t, "the other queue is stored", func() bool { return withKey.pop("open", "batch=9&autoAck=true").Status == http.StatusOK })
	until(t, "three messages are rejected and three wait", func() bool {
		state := c.maintenance()
		return state.BufferedMessages == 3 && state.BufferStats.FailedCount == 3
	})
	type rejections struct {
		Total    int
		Messages []struct {
			Queue, TransactionID, Reason string
			Data                         json.RawMessage
		}
	}
	rejected := ask[rejections](c, get(maintenancePath+"/rejected?limit=2")).ok(http.StatusOK)
	require.Equal(t, 3, rejected.Total)
	require.Len(t, rejected.Messages, 2)
	require.Equal(t, "sealed", rejected.Messages[0].Queue)
	require.Equal(t, "1", rejected.Messages[0].TransactionID)
	require.JSONEq(t, "1", string(rejected.Messages[0].Data))
	require.Contains(t, rejected.Messages[0].Reason, "encryption.key")

	require.Equal(t, []string{"buffered"}, c.statuses(item{Queue: "full", TransactionID: "4"}), "a push to the full queue must be buffered behind the earlier ones")
	var order []string
	until(t, "the full queue has stored one message after the other", func() bool {
		order = append(order, withKey.popIDs("full", "autoAck=true")...)
		return len(order) == 5
	})
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, order)

	withKey.configure("sealed", object{"encryptionEnabled": false}).ok(http.StatusOK)
	until(t, "the rejected messages are stored", func() bool {
		ask[object](c, post(maintenancePath+"/rejected/retry", "")).ok(http.StatusOK)
		c.untilStored()
		return c.maintenance().BufferStats.FailedCount == 0
	})
	require.Equal(t, []string{"1", "2", "3"}, withKey.popIDs("sealed", "batch=9"))
	require.Zero(t, ask[object](c, call{Method: http.MethodDelete, Target: maintenancePath + "/rejected"}).ok(http.StatusOK)["messages"])
}

// Producers push to their own partitions. Meanwhile maintenance begins and ends, and their server is killed before and
// after the end. No message may be lost or stored twice. Each partition must keep its order.
func TestTheSpoolLosesAndRepeatsNothingAfterKills(t *testing.T) {
	t.Parallel()
	const producers, batch = 4, 20
	dsn, dir := pgtest.Database(t), t.TempDir()
	steady := startOn(t, dsn).client(t)
	steady.switchTo(maintenancePath, "true")
	var victim atomic.Pointer[child]
	begin := func() {
		started := startChildIn(t, dsn, dsn, dir)
		victim.Store(&started)
	}
	begin()
	again := func() {
		require.NoError(t, victim.Load().process.Kill())
		begin()
	}
	ctx, finish := context.WithCancel(t.Context())
	defer finish()
	var working sync.WaitGroup
	var pushedBatches atomic.Int64
	sent := make([]int, producers)
	for p := range producers {
		working.Go(func() {
			for ctx.Err() == nil {
				items := make([]item, batch)
				for i := range items {
					n := fmt.Sprint(sent[p] + i)
					items[i] = item{Queue: "q", Partition: fmt.Sprint("p", p), TransactionID: n, Payload: json.RawMessage(n)}
				}
				to := &server{base: victim.Load().base, http: steady.http}
				got, err := to.send(t.Context(), pushCall(items...))
				if err != nil || got.Status != http.StatusCreated { // the batch is sent again to the next process
					continue
				}
				sent[p] += batch
				pushedBatches.Add(1)
			}
		})
	}
	progress := func(n int64) {
		before := pushedBatches.Load()
		until(t, "more batches are pushed", func() bool { return pushedBatches.Load() >= before+n })
	}
	progress(100)
	again()
	progress(100)
	steady.switchTo(maintenancePath, "false")
	again()
	progress(100)
	steady.untilStored() // while the producers continue
	progress(10)
	finish()
	working.Wait()
	steady.untilStored()
	next := make([]int, producers)
	for total := 0; total < sent[0]+sent[1]+sent[2]+sent[3]; {
		d := steady.pop("q", "batch=1000&autoAck=true").ok(http.StatusOK)
		for _, m := range d.Messages {
			var p int
			_, err := fmt.Sscanf(d.Partition, "p%d", &p)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(next[p]), string(m.Data), "partition %d", p)
			next[p]++
			total++
		}
	}
	require.Equal(t, sent, next)
	require.Equal(t, http.StatusNoContent, steady.pop("q", "").Status)
}
