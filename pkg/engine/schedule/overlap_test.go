package schedule

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// sequence moves the messages of the inbox into their partitions, as the sequencer does.
func (f *fixture) sequence(s *store.Store) {
	f.t.Helper()
	items, err := postgres.Collect(enginetest.Context(f.t), f.pool, `DELETE FROM belfry.inbox RETURNING queue, partition, transaction_id, payload::text`,
		func(row pgx.CollectableRow) (item queue.PushItem, err error) {
			var payload string
			err = row.Scan(&item.Queue, &item.Partition, &item.TransactionID, &payload)
			item.Payload = json.RawMessage(payload)
			return item, err
		})
	require.NoError(f.t, err)
	_, err = s.Push(enginetest.Context(f.t), items)
	require.NoError(f.t, err)
}

// pop delivers the next message of queue q to group g.
func (f *fixture) pop(s *store.Store) queue.Delivery {
	f.t.Helper()
	d, err := s.Pop(enginetest.Context(f.t), &queue.PopRequest{
		Queue: "q", Group: "g", Batch: 1, Partitions: 1, Subscription: queue.Subscription{Mode: queue.SubscribeAll},
	})
	require.NoError(f.t, err)
	require.Len(f.t, d.Messages, 1)
	return d
}

func (f *fixture) ack(s *store.Store, d queue.Delivery, status queue.AckStatus) {
	f.t.Helper()
	m := d.Messages[0]
	results, err := s.Ack(enginetest.Context(f.t), []queue.AckItem{{
		TransactionID: m.TransactionID, PartitionID: m.Partition.ID.String(), Group: "g", LeaseID: d.LeaseID.String(), Status: status,
	}})
	require.NoError(f.t, err)
	require.True(f.t, results[0].Success, results[0].Error)
}

// An instant gets no message while the group has not finished the last one: in the inbox, in its partition, and under a lease. A
// dead letter is finished. A message of RunNow counts too.
func TestAnInstantIsSkippedWhileTheLastMessageIsNotDone(t *testing.T) {
	f := newFixture(t)
	s := enginetest.Store(t, f.pool)
	f.put("s", func(d *Definition) { hourly(d); d.OverlapGroup = "g" })
	last, skipped := "", int64(0)
	tick := func(n int, stored bool, why string) {
		t.Helper()
		f.travel(f.Runner, hour(n))
		f.mustStep(f.Runner)
		if stored {
			last = "s@" + hour(n).Format(time.RFC3339)
		} else {
			skipped++
		}
		require.Equal(t, last, f.schedule("s").LastTransactionID, why)
		require.Equal(t, skipped, f.metric(f.Runner, "belfry_schedule_skipped_total"), why)
		require.Equal(t, hour(n+1), f.schedule("s").NextAt.UTC(), why)
	}
	tick(1, true, "it is the first message")
	tick(2, false, "the message is in the inbox")
	f.sequence(s)
	tick(3, false, "the group does not exist")
	d := f.pop(s)
	tick(4, false, "the group has a lease")
	f.ack(s, d, queue.AckCompleted)
	tick(5, true, "the group has completed the message")
	f.sequence(s)
	d = f.pop(s)
	f.ack(s, d, queue.AckFailed)
	tick(6, false, "the message is delivered again")
	f.ack(s, f.pop(s), queue.AckDead)
	tick(7, true, "a dead letter is finished")
	f.sequence(s)
	f.ack(s, f.pop(s), queue.AckCompleted)

	id, err := f.RunNow(t.Context(), "s")
	require.NoError(t, err)
	last = id
	tick(8, false, "a message of RunNow is not finished")
	f.sequence(s)
	f.ack(s, f.pop(s), queue.AckCompleted)
	tick(9, true, "a message of RunNow is finished")
}

// The instants of a pause are missed instants: none, one or all of them come after the resume, at most 1,000.
func TestAResumeHandlesTheInstantsOfThePause(t *testing.T) {
	f := newFixture(t)
	want := map[string][]int{MissedSkip: nil, MissedOne: {3}, MissedAll: {1, 2, 3}}
	for missed := range want {
		f.put(missed, func(d *Definition) { hourly(d); d.Missed = missed })
	}
	f.put("many", func(d *Definition) { d.Spec.Every, d.Spec.Starts, d.Missed = time.Second, hour(1), MissedAll })
	f.mustStep(f.Runner)
	pause := func(paused bool) {
		for _, name := range []string{MissedSkip, MissedOne, MissedAll, "many"} {
			changed, err := f.SetPaused(t.Context(), name, paused, "because")
			require.NoError(t, err)
			require.True(t, changed)
			changed, err = f.SetPaused(t.Context(), name, paused, "again")
			require.NoError(t, err)
			require.False(t, changed)
		}
	}
	pause(true)
	paused := f.schedule(MissedOne)
	require.True(t, paused.Paused)
	require.Equal(t, "because", paused.PauseReason)
	require.True(t, paused.NextAt.IsZero())
	f.travel(f.Runner, hour(3).Add(20*time.Second))
	f.mustStep(f.Runner)
	f.put(MissedOne, hourly) // a replaced schedule stays paused
	f.mustStep(f.Runner)
	require.Empty(t, f.ids(), "a paused schedule stores nothing")
	pause(false)
	f.mustStep(f.Runner)
	require.Empty(t, f.schedule(MissedOne).PauseReason)
	for missed, hours := range want {
		ids := []string{}
		for _, n := range hours {
			ids = append(ids, missed+"@"+hour(n).Format(time.RFC3339))
		}
		require.Equal(t, ids, f.idsOf(missed))
		require.Equal(t, hour(4), f.schedule(missed).NextAt.UTC())
	}
	require.Len(t, f.idsOf("many"), maxMissed)
}

// idsOf returns the transaction ids of the messages of a schedule in the inbox.
func (f *fixture) idsOf(name string) []string {
	f.t.Helper()
	return append([]string{}, f.texts(`SELECT transaction_id FROM belfry.inbox WHERE transaction_id LIKE $1 || '@%' ORDER BY id`, name)...)
}

// The delay of jitter is the same at all instances, and less than the jitter. The message names the instant without it.
func TestJitterIsTheSameAtAllInstances(t *testing.T) {
	f := newFixture(t)
	const jitter = 10 * time.Minute
	other := f.runner()
	seen := map[time.Duration]bool{}
	for _, name := range []string{"a", "b", "c", "d"} {
		f.put(name, func(d *Definition) { hourly(d); d.Jitter = jitter })
	}
	due := func(name string) time.Duration {
		return enginetest.Value[time.Time](t, f.pool, `SELECT due_at FROM belfry.schedule WHERE name = $1`, name).Sub(hour(1))
	}
	f.mustStep(f.Runner)
	for _, name := range []string{"a", "b", "c", "d"} {
		late := due(name)
		require.GreaterOrEqual(t, late, time.Duration(0))
		require.Less(t, late, jitter)
		seen[late] = true
		f.put(name, func(d *Definition) { d.Spec.Every = 2 * time.Hour })
		f.put(name, func(d *Definition) { hourly(d); d.Jitter = jitter })
		f.mustStep(other)
		require.Equal(t, late, due(name))
		for _, step := range []struct {
			at     time.Duration
			stored int
		}{{late - time.Minute, 0}, {late + time.Millisecond, 1}} {
			f.exec(`UPDATE belfry.schedule SET due_at = NULL WHERE name <> $1`, name)
			f.travel(f.Runner, hour(1).Add(step.at))
			f.mustStep(f.Runner)
			require.Len(t, f.idsOf(name), step.stored)
		}
		require.Equal(t, name+"@"+hour(1).Format(time.RFC3339), f.idsOf(name)[0])
		f.exec(`UPDATE belfry.schedule SET due_at = '-infinity'`)
		f.travel(f.Runner, time.Now())
		f.mustStep(f.Runner)
	}
	require.Greater(t, len(seen), 1, "schedules have different delays")
}
