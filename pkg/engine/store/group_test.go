package store_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/stopwatch"
)

// Forty consumers of a new group start at the same time. One consumer registers the group. The
// other consumers do not try to register it, because each attempt takes an id from the sequence.
func TestConcurrentConsumersRegisterTheirGroupOnce(t *testing.T) {
	b := newBench(t)
	b.push("p", "a")
	var consumers errgroup.Group
	for range 40 {
		consumers.Go(func() error {
			_, err := b.Pop(t.Context(), request("g", 1))
			return err
		})
	}
	require.NoError(t, consumers.Wait())
	require.Equal(t, 1, b.count("SELECT last_value FROM belfry.consumer_group_id_seq"))
}

// join pops for the group until its join of the queue has ended. It requires that no message is
// delivered.
func (b *bench) join(group string) {
	b.t.Helper()
	require.Empty(b.t, b.pop(request(group, 1)).Messages)
}

// manyPartitions is more than two pages of a join.
const manyPartitions = 4500

// half creates a queue with many partitions, and the group g, whose join stopped after the first
// page.
func (b *bench) half(mode string) (group int64) {
	b.t.Helper()
	b.exec(`INSERT INTO belfry.queue (name, retention_enabled, completed_retention_seconds) VALUES ('q', true, 1)`)
	b.exec(`INSERT INTO belfry.partition (queue_id, name) SELECT q.id, 'p' || lpad(i::text, 5, '0') FROM belfry.queue q, generate_series(1, $1::int) i`, manyPartitions)
	b.scan(`SELECT group_id FROM belfry.join_group('q', 'g', NULL, $1, NULL)`, []any{mode}, &group)
	b.exec(`SELECT belfry.join_page($1, 2000)`, group)
	b.requireCursors(2001)
	return group
}

// requireCursors requires n cursors, one for each pair of a partition and a group.
func (b *bench) requireCursors(n int) {
	b.t.Helper()
	var cursors, pairs int
	b.scan(`SELECT count(*), count(DISTINCT (partition_id, group_id)) FROM belfry.cursor`, nil, &cursors, &pairs)
	require.Equal(b.t, []int{n, n}, []int{cursors, pairs})
}

// The next pop resumes a join that stopped. The pop does not answer empty during the join, and finds
// the message in the last partition.
func TestAPopResumesAJoinThatStopped(t *testing.T) {
	b := newBench(t)
	b.half("all")
	b.push("p04500", "last")
	require.Equal(t, []string{"last"}, transactionIDs(b.pop(request("g", 1))))
	b.join("g")
	b.requireCursors(manyPartitions)
	require.Zero(t, b.stranded())
}

// A preflight does not wait for the end of a join, so Find does not return a group that still joins.
func TestFindLeavesOutAGroupThatJoins(t *testing.T) {
	b := newBench(t)
	b.half("all")
	for _, joined := range []bool{false, true} {
		if joined {
			b.join("g")
		}
		_, registered, ok, err := b.Find(t.Context(), request("g", 1))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, joined, registered)
	}
}

// Run resumes the joins that a crash stopped, without a pop.
func TestAStartResumesTheJoins(t *testing.T) {
	b := newBench(t)
	b.half("all")
	startRun(t, b.Store)
	enginetest.Await(t, "the end of the join", func() bool { return b.holds(`SELECT joined_upto IS NULL FROM belfry.consumer_group`) })
	b.requireCursors(manyPartitions)
}

// While the join is stopped, a pop without messages fails. A push to a new partition succeeds, and
// the group gets its message.
func TestAPopDoesNotAnswerEmptyBeforeTheEndOfTheJoin(t *testing.T) {
	b := newBench(t)
	b.half("all")
	release := b.lockRows(`SELECT FROM belfry.consumer_group FOR UPDATE`)
	watch := stopwatch.Start(t)
	_, err := b.Pop(t.Context(), request("g", 1))
	require.ErrorIs(t, err, queue.ErrJoining)
	require.Equal(t, queue.CodeOverloaded, queue.CodeOf(err))
	watch.Within(t, 2*time.Second, "a pop that finds nothing fails")
	b.push("new", "m")
	require.Equal(t, []string{"m"}, transactionIDs(b.pop(request("g", 1))))
	release()
	b.join("g")
	b.requireCursors(manyPartitions + 1)
}

// Two instances join two groups while partitions are created and messages are pushed. Each pair has one
// cursor, and no message is stranded.
func TestConcurrentJoinsCreateEachCursorOnce(t *testing.T) {
	b := newBench(t)
	b.half("all")
	other := newStore(t, b.pool, prometheus.NewRegistry(), nil)
	var clients errgroup.Group
	for i := range 20 {
		clients.Go(func() error {
			pop := b.Pop
			if i%2 == 0 {
				pop = other.Pop
			}
			req := request([]string{"g", "h"}[i%4/2], 1)
			if i%5 == 0 {
				name := "p04400"
				req.Partition = &name
			}
			_, err := pop(t.Context(), req)
			if queue.CodeOf(err) == queue.CodeOverloaded {
				return nil
			}
			return err
		})
		clients.Go(func() error {
			_, err := b.Push(t.Context(), []queue.PushItem{item("new"+string(rune('a'+i)), "m"), item("p0430"+string(rune('0'+i%10)), string(rune('a'+i)))})
			return err
		})
	}
	require.NoError(t, clients.Wait())
	for _, group := range []string{"g", "h"} {
		for found := true; found; {
			delivery, err := b.Pop(t.Context(), request(group, 9))
			found = err != nil || len(delivery.Messages) > 0
			if err != nil {
				require.ErrorIs(t, err, queue.ErrJoining)
			}
		}
	}
	b.requireCursors(2 * (manyPartitions + 20))
	require.Zero(t, b.stranded())
	require.Zero(t, b.deadlocks())
}

// A group with mode "new" gets all messages that are pushed after its registration, also in
// partitions that it joins later.
func TestAJoinKeepsTheInstantOfTheRegistration(t *testing.T) {
	b := newBench(t)
	b.half("new")
	b.push("p04000", "before")
	b.push("p04000", "after")
	b.exec(`UPDATE belfry.consumer_group g SET start_at = m.created_at FROM belfry.message m WHERE m.transaction_id = 'before'`)
	require.Equal(t, []string{"after"}, transactionIDs(b.pop(request("g", 9))))
}

// The sweep keeps a message that other groups have completed while a group that joins has no cursor in
// its partition. It deletes no idle partition meanwhile.
func TestASweepKeepsWhatAJoiningGroupNeeds(t *testing.T) {
	b := newBench(t)
	b.half("all")
	b.push("p04000", "m")
	b.exec(`INSERT INTO belfry.consumer_group (queue_id, name, whole_queue) SELECT q.id, 'done', true FROM belfry.queue q`)
	b.exec(`INSERT INTO belfry.cursor (partition_id, group_id, committed)
		SELECT p.id, g.id, p.last_seq FROM belfry.partition p, belfry.consumer_group g WHERE g.name = 'done'`)
	b.exec(`UPDATE belfry.message SET created_at = now() - interval '1 hour'`)
	sweep := func() (deleted int) {
		b.scan(`SELECT (belfry.sweep_partition(p.queue_id, p.id, false, 100, NULL)).completed FROM belfry.partition p WHERE p.name = 'p04000'`, nil, &deleted)
		return deleted
	}
	require.Zero(t, sweep())
	require.False(t, b.holds(`SELECT belfry.remove_idle_partition(p.id, interval '0') FROM belfry.partition p WHERE p.name = 'p04001'`))
	d := b.pop(request("g", 1))
	require.Equal(t, []string{"m"}, transactionIDs(d))
	b.ack(d, queue.AckCompleted, d.Messages...)
	require.Equal(t, 1, sweep())
}

// A seek during a join also moves the cursors that did not exist yet.
func TestASeekReachesPartitionsThatTheGroupHasNotJoined(t *testing.T) {
	b := newBench(t)
	group := b.half("all")
	b.push("p04000", "m")
	b.exec(`SELECT belfry.seek_cursors(ARRAY (SELECT id FROM belfry.partition WHERE name = 'p04000'), $1, 'infinity')`, group)
	b.join("g")
	b.requireCursors(manyPartitions)
}

// A group that is deleted during its join gets no further cursor.
func TestADeletedGroupJoinsNoFurther(t *testing.T) {
	b := newBench(t)
	group := b.half("all")
	b.exec(`DELETE FROM belfry.consumer_group`)
	require.True(t, b.holds(`SELECT done FROM belfry.join_page($1, 2000)`, group))
	b.requireCursors(2001)
}

// belfry.pop continues a join until it finds a message.
func TestASQLPopContinuesAJoin(t *testing.T) {
	b := newBench(t)
	b.half("all")
	b.push("p04500", "last")
	var transaction string
	b.scan(`SELECT transaction_id FROM belfry.pop('q', 'g')`, nil, &transaction)
	require.Equal(t, "last", transaction)
	b.scan(`SELECT count(*)::text FROM belfry.pop('q', 'g')`, nil, &transaction)
	require.Equal(t, "0", transaction)
	b.requireCursors(manyPartitions)
}

// registerForLater registers the group g, which starts in one hour. It pushes message a, makes it a dead
// letter and redrives it. Then it pushes the messages in more. From the log, g gets none of these messages.
func (b *bench) registerForLater(more ...string) {
	b.t.Helper()
	b.register()
	req := request("g", 9)
	req.Subscription = queue.Subscription{Mode: queue.SubscribeFrom, From: time.Now().Add(time.Hour)}
	require.Empty(b.t, b.pop(req).Messages)
	stored := b.push("p", "a")[0]
	results, err := b.Ack(b.t.Context(), []queue.AckItem{
		{TransactionID: "a", PartitionID: stored.PartitionID.String(), Group: "g", Status: queue.AckDead},
	})
	require.NoError(b.t, err)
	require.True(b.t, results[0].DeadLettered)
	require.Equal(b.t, 1, b.redrive())
	b.push("p", more...)
}

// deleteMessage deletes a message as pkg/engine/deadletter does, and wakes the cursors.
func (b *bench) deleteMessage(id string) {
	b.t.Helper()
	b.exec(`SELECT belfry.delete_message((SELECT id FROM belfry.partition), $1)`, id)
	b.wakeAll()
}

func (b *bench) wakeAll() {
	b.t.Helper()
	_, err := b.Heal(b.t.Context())
	require.NoError(b.t, err)
}

// startGroup makes the group start now and requires that it gets the next message.
func (b *bench) startGroup() {
	b.t.Helper()
	b.exec(`UPDATE belfry.cursor SET start_at = clock_timestamp() WHERE start_at IS NOT NULL`)
	b.push("p", "first")
	require.Equal(b.t, []string{"first"}, transactionIDs(b.pop(request("g", 9))))
}

// A group that starts in the future gets its redriven messages. It gets no message from before its
// start, for each possible end of the redelivery.
func TestAGroupGetsNoMessageFromBeforeItsStart(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(b *bench){
		"acknowledged": func(b *bench) {
			d := b.pop(request("g", 9))
			require.Equal(b.t, []string{"a"}, transactionIDs(d))
			require.True(b.t, b.ack(d, queue.AckCompleted, d.Messages...)[0].LeaseReleased)
		},
		"acknowledged after its lease": func(b *bench) {
			d := b.pop(request("g", 9))
			b.endLeases()
			d.LeaseID = queue.ID{}
			require.True(b.t, b.ack(d, queue.AckCompleted, d.Messages...)[0].Success)
		},
		"by autoAck": func(b *bench) {
			req := request("g", 9, withAutoAck(true))
			require.Equal(b.t, []string{"a"}, transactionIDs(b.pop(req)))
		},
		"given up": func(b *bench) {
			b.option("max_deliveries = 1")
			require.Equal(b.t, []string{"a"}, transactionIDs(b.pop(request("g", 9))))
			b.endLeases()
		},
		"deleted":              func(b *bench) { b.deleteMessage("a") },
		"deleted while leased": func(b *bench) { b.pop(request("g", 9)); b.deleteMessage("a") },
		"its row is missing": func(b *bench) {
			b.exec(`DELETE FROM belfry.message WHERE transaction_id = 'a'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.registerForLater("b", "c")
			settle(b)
			require.Empty(t, b.pop(request("g", 9)).Messages)
			b.requireRedrives(0)
			b.push("p", "d")
			require.Empty(t, b.pop(request("g", 9)).Messages)
			b.startGroup()
		})
	}
}

// An ack or a deletion of an earlier message, between a push and its wake, makes no earlier message
// ready.
func TestEarlierMessagesStayUnreadyBeforeTheWake(t *testing.T) {
	t.Parallel()
	for name, touch := range map[string]func(b *bench){
		"an ack without a lease": func(b *bench) {
			var partition [16]byte
			b.scan(`SELECT uid FROM belfry.partition`, nil, &partition)
			_, err := b.Ack(b.t.Context(), []queue.AckItem{
				{TransactionID: "b", PartitionID: queue.ID(partition).String(), Group: "g", Status: queue.AckCompleted},
			})
			require.NoError(b.t, err)
		},
		"a deletion": func(b *bench) {
			b.exec(`SELECT belfry.delete_message((SELECT id FROM belfry.partition), 'b')`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.registerForLater("b", "c")
			b.deleteMessage("a")
			// This is the state between the push and its wake.
			b.exec(`UPDATE belfry.cursor SET committed = 1, ready_at = NULL`)
			touch(b)
			require.Empty(t, b.pop(request("g", 9)).Messages)
			b.wakeAll()
			require.Empty(t, b.pop(request("g", 9)).Messages)
			b.startGroup()
		})
	}
}
