package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// limit sets columns of the limits of all groups of the queue, for example "concurrency = 2".
func (b *bench) limit(assignments string) {
	b.t.Helper()
	b.exec(`INSERT INTO belfry.group_limit (queue_id, group_name) SELECT id, '' FROM belfry.queue ON CONFLICT DO NOTHING`)
	b.exec(`UPDATE belfry.group_limit SET changed_at = clock_timestamp(), ` + assignments)
	b.exec(`UPDATE belfry.consumer_group g SET limits_id = belfry.limits_of(g.queue_id, g.name)`)
}

// rate returns the assignments of a rate.
func rate(messages int, per time.Duration, burst int) string {
	return fmt.Sprintf("rate_messages = %d, rate_per = interval '%f s', rate_burst = %d", messages, per.Seconds(), burst)
}

// liveLeases counts the live leases of all groups in one snapshot.
func (b *bench) liveLeases() int {
	b.t.Helper()
	return b.count(`SELECT count(*) FROM belfry.cursor WHERE lease_id IS NOT NULL AND lease_until > clock_timestamp()`)
}

// pushEach pushes one message to each of n partitions.
func (b *bench) pushEach(n int) {
	b.t.Helper()
	items := make([]queue.PushItem, n)
	for i, name := range numbered("p", n) {
		items[i] = item(name, "m-"+name)
	}
	_, err := b.Push(b.t.Context(), items)
	require.NoError(b.t, err)
}

// A group never has more live leases than its concurrency. The end of a lease gives room for one.
func TestAGroupHasNoMoreLeasesThanItsConcurrency(t *testing.T) {
	b := newBench(t, "g")
	b.pushEach(9)
	b.limit("concurrency = 3")
	first := b.pop(request("g", 9, across(2)))
	require.Len(t, first.Messages, 2)
	second := b.pop(request("g", 9, across(9)))
	require.Len(t, second.Messages, 1)
	require.True(t, second.Limited)
	refused := b.pop(request("g", 9))
	require.Empty(t, refused.Messages)
	require.True(t, refused.Limited)
	require.Empty(t, b.sqlPop(b.connect(), "g", 9, 9))
	require.Equal(t, 3, b.liveLeases())
	b.ack(second, queue.AckCompleted, second.Messages...)
	require.Len(t, b.sqlPop(b.connect(), "g", 9, 9), 1)
	b.endLeases()
	require.Len(t, b.pop(request("g", 9, across(9))).Messages, 3, "leases that have ended give room without an ack")
}

// After the limit was lowered, a group gets no lease before fewer are live than the new limit allows. It does not matter
// which of the leases end.
func TestALoweredConcurrencyHoldsAtOnce(t *testing.T) {
	for name, keep := range map[string]int{"the oldest leases end": 1, "the newest leases end": 0} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "g")
			b.pushEach(9)
			b.limit("concurrency = 4")
			var held []queue.Delivery
			for range 4 {
				held = append(held, b.pop(request("g", 1)))
			}
			b.limit("concurrency = 2")
			for range 2 {
				require.Empty(t, b.pop(request("g", 1)).Messages)
				ended := held[keep*(len(held)-1)]
				if keep == 1 {
					held = held[:len(held)-1]
				} else {
					held = held[1:]
				}
				b.ack(ended, queue.AckCompleted, ended.Messages...)
			}
			require.Empty(t, b.pop(request("g", 1)).Messages)
			b.ack(held[0], queue.AckCompleted, held[0].Messages...)
			require.Len(t, b.pop(request("g", 9, across(9))).Messages, 1)
			require.Equal(t, 2, b.liveLeases())
		})
	}
}

// A lease above a lowered limit ended by the clock, and its partition is paused. So no claim replaces the lease. It
// takes no place.
func TestAnEndedLeaseAboveALoweredLimitTakesNoPlace(t *testing.T) {
	b := newBench(t, "g")
	b.pushEach(3)
	b.limit("concurrency = 2")
	first, second := b.pop(request("g", 1)), b.pop(request("g", 1))
	b.exec(`UPDATE belfry.cursor SET lease_until = clock_timestamp(), ready_at = NULL WHERE lease_id = $1`, [16]byte(second.LeaseID))
	b.exec(`UPDATE belfry.partition SET paused = true WHERE id = (SELECT partition_id FROM belfry.cursor WHERE lease_id = $1)`, [16]byte(second.LeaseID))
	b.limit("concurrency = 1")
	require.Empty(t, b.pop(request("g", 1)).Messages)
	b.ack(first, queue.AckCompleted, first.Messages...)
	require.Len(t, b.pop(request("g", 1)).Messages, 1)
}

// An extension waits for the lock of the cursor until the lease has ended. Meanwhile a claim may have given the place to
// another lease. So the extension fails.
func TestAnExtensionThatWaitedTooLongFails(t *testing.T) {
	extensions := map[string]func(b *bench, lease queue.ID) error{
		"HTTP": func(b *bench, lease queue.ID) error {
			_, err := b.Extend(b.t.Context(), lease, time.Minute)
			return err
		},
		"SQL": func(b *bench, lease queue.ID) error {
			_, err := b.pool.Exec(b.t.Context(), `SELECT belfry.extend($1, 60)`, [16]byte(lease))
			return err
		},
	}
	for name, extend := range extensions {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "g")
			b.pushEach(1)
			d := b.pop(request("g", 1))
			b.exec(`UPDATE belfry.cursor SET lease_until = clock_timestamp() + interval '1 s' WHERE lease_id IS NOT NULL`)
			tx := b.begin(b.connect())
			enginetest.Exec(t, tx, `SELECT FROM belfry.cursor FOR UPDATE`)
			extended := make(chan error, 1)
			go func() { extended <- extend(b, d.LeaseID) }()
			awaitLockWait(t, b)
			require.Equal(t, 1, b.liveLeases(), "the extension began in time")
			enginetest.Await(t, "the end of the lease", func() bool { return b.liveLeases() == 0 })
			require.NoError(t, tx.Rollback(t.Context()))
			require.Error(t, <-extended)
			require.Zero(t, b.liveLeases())
		})
	}
}

// A transaction in REPEATABLE READ does not see the change that another session has made since its snapshot. Its pop
// fails, and never exceeds a limit.
func TestAPopWithAnOldSnapshotExceedsNoLimit(t *testing.T) {
	for name, change := range map[string]func(b *bench){
		"the first lease":         func(b *bench) { b.pop(request("g", 1)) },
		"the first limit":         func(b *bench) { b.limit("concurrency = 1, rate_messages = NULL"); b.pop(request("g", 1)) },
		"a lower limit":           func(b *bench) { b.pop(request("g", 1)); b.limit("concurrency = 1, rate_messages = NULL") },
		"the first tokens":        func(b *bench) { b.pop(request("g", 1, withAutoAck(true))) },
		"tokens taken meanwhile":  func(b *bench) { b.pop(request("g", 1, withAutoAck(true))) },
		"a lease taken meanwhile": func(b *bench) { b.pop(request("g", 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "g")
			b.pushEach(9)
			switch name {
			case "the first lease":
				b.limit("concurrency = 1")
			case "a lower limit":
				b.limit("concurrency = 2")
			case "the first tokens":
				b.limit(rate(1, time.Hour, 1))
			case "tokens taken meanwhile":
				b.limit(rate(1, time.Hour, 2))
				b.pop(request("g", 1, withAutoAck(true)))
			case "a lease taken meanwhile":
				b.limit("concurrency = 1")
				d := b.pop(request("g", 1))
				b.ack(d, queue.AckCompleted, d.Messages...)
			}
			tx, err := b.connect().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			require.NoError(t, err)
			enginetest.Exec(t, tx, `SELECT`) // takes the snapshot
			change(b)
			_, err = tx.Exec(t.Context(), `SELECT FROM belfry.pop('q', 'g', partition => 'p8')`)
			requireState(t, err, "40001", "")
		})
	}
}

// A rate that was raised holds at once, although the last token of the old rate would come in a day.
func TestARaisedRateHoldsAtOnce(t *testing.T) {
	b := newBench(t, "g")
	b.pushEach(9)
	b.limit(rate(1, 24*time.Hour, 1))
	require.Len(t, b.pop(request("g", 9, across(9))).Messages, 1)
	refused := b.pop(request("g", 9, across(9)))
	require.True(t, refused.Limited)
	require.Greater(t, refused.LimitedIn, 23*time.Hour)
	b.limit(rate(1000, time.Second, 1))
	enginetest.Await(t, "a token", func() bool {
		return b.holds(`SELECT belfry.limited_until(id, limits_id) IS NULL FROM belfry.consumer_group`)
	})
	require.Len(t, b.pop(request("g", 1)).Messages, 1)
}

// A lease ends by the clock while an extension is not committed yet. Nobody knows whether the lease is live, so it keeps
// its place.
func TestALeaseKeepsItsPlaceDuringAnExtension(t *testing.T) {
	b := newBench(t, "g")
	b.pushEach(2)
	b.limit("concurrency = 1")
	d := b.pop(request("g", 1))
	b.exec(`UPDATE belfry.cursor SET lease_until = clock_timestamp() + interval '1 s' WHERE lease_id IS NOT NULL`)
	tx := b.begin(b.connect())
	enginetest.Exec(t, tx, `SELECT belfry.extend($1, 60)`, [16]byte(d.LeaseID))
	enginetest.Await(t, "the end of the lease", func() bool { return b.liveLeases() == 0 })
	require.True(t, b.pop(request("g", 1)).Limited)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 1, b.liveLeases())
}

// A refused claim counts the messages that it skipped.
func TestARefusedClaimCountsExpiredMessages(t *testing.T) {
	b := newBench(t, "g")
	b.pushEach(2)
	b.option("expire_after_seconds = 60")
	b.limit("concurrency = 1")
	require.Len(t, b.pop(request("g", 1)).Messages, 1)
	b.ageMessages(1, time.Hour)
	b.push("p0", "fresh")
	b.push("p1", "fresh")
	require.True(t, b.pop(request("g", 1)).Limited)
	require.EqualValues(t, 1, enginetest.Metric(t, b.reg, "belfry_messages_expired_total"))
}

// The answer for waiting requests agrees with a claim: the limits allow something exactly if a claim gets it.
func TestTheAnswerForWaitingRequestsAgreesWithAClaim(t *testing.T) {
	for name, limits := range map[string]string{
		"few places":  "concurrency = 3",
		"many places": "concurrency = 20",
		"one part":    rate(4, time.Hour, 4),
		"two parts":   rate(40, time.Hour, 40),
		"both":        "concurrency = 30, " + rate(5, time.Hour, 5),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "g")
			b.pushEach(50)
			b.limit(limits)
			until := func() (at *time.Time) {
				b.scan(`SELECT belfry.limited_until(id, limits_id) FROM belfry.consumer_group`, nil, &at)
				return at
			}
			allowed := 0
			for until() == nil {
				d := b.pop(request("g", 1))
				require.Len(t, d.Messages, 1, "after %d claims", allowed)
				allowed++
			}
			at := until()
			d := b.pop(request("g", 1))
			require.True(t, d.Limited)
			require.Empty(t, d.Messages)
			require.WithinDuration(t, *at, d.DatabaseNow.Add(d.LimitedIn), time.Millisecond)
			require.Equal(t, map[string]int{"few places": 3, "many places": 20, "one part": 4, "two parts": 40, "both": 5}[name], allowed)
		})
	}
}
