package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// testWriter is a Writer whose statements are recorded. It runs in a synctest bubble.
type testWriter struct {
	*Writer
	*Recorder
	// stop ends Run and waits for it.
	stop func()

	mu         sync.Mutex
	statements [][]row
	waiting    func() map[Key]int64
	fail       error
	// written counts the calls of Sources.Written.
	written atomic.Int64
}

// wait sets how many requests wait for the queue q.
func (d *testWriter) wait(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = func() map[Key]int64 {
		if n == 0 {
			return map[Key]int64{}
		}
		return map[Key]int64{{"q", "g"}: n}
	}
}

// failWith sets the error that each statement returns.
func (d *testWriter) failWith(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

// run runs a Writer until the test ends.
func run(t *testing.T) *testWriter {
	d := &testWriter{Recorder: NewRecorder(10)}
	d.wait(0)
	d.Writer = NewWriter(nil, d.Recorder, Sources{
		Instance: Instance{ID: queue.NewID().String()},
		Parked: func() map[Key]int64 {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.waiting()
		},
		Pool:    func() (size, idle, active int64) { return 3, 2, 1 },
		Written: func() { d.written.Add(1) },
	}, zap.NewNop())
	d.write = func(_ context.Context, queues, instances string) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.fail != nil && len(queues) > 1<<20 {
			return d.fail
		}
		var rows []row
		var figures []instanceRow
		require.NoError(t, json.Unmarshal([]byte(queues), &rows))
		require.NoError(t, json.Unmarshal([]byte(instances), &figures))
		d.statements = append(d.statements, rows)
		return d.fail
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	d.stop = func() { cancel(); running.Wait() }
	t.Cleanup(d.stop)
	return d
}

// minutes waits n minutes of the fake clock.
func (d *testWriter) minutes(n int) {
	<-time.After(time.Duration(n) * time.Minute)
	synctest.Wait()
}

func (d *testWriter) push(queueName string, n int) {
	items := make([]queue.PushItem, n)
	for i := range items {
		items[i].Queue = queueName
	}
	d.Pushed(items, make([]queue.PushResult, n))
}

// deliver records the delivery of a message that was committed age ago.
func (d *testWriter) deliver(queueName string, age time.Duration) {
	now := time.Now()
	d.Delivered(&queue.Delivery{Group: "g", DatabaseNow: now, ReceivedAt: now, Messages: []queue.Message{
		{Partition: &queue.Partition{Queue: queueName}, CreatedAt: now.Add(-age), Attempt: 1},
	}})
}

func inBubble(t *testing.T, test func(t *testing.T, d *testWriter)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * time.Second)
		test(t, run(t))
	})
}

// In a busy minute, the Writer runs one statement for all queues and groups. In an idle minute it runs none. A minute is
// idle too if requests only wait, end without a message and wait again.
func TestOneStatementInABusyMinuteAndNoneInAnIdleOne(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		d.wait(1000)
		d.minutes(1)
		require.Len(t, d.statements, 1, "the number of waiting requests has changed from 0")
		require.EqualValues(t, 1000, *d.statements[0][0].Parked)
		for i := range 20 {
			d.wait(int64(990 + i))
			d.Empty(&queue.PopRequest{Queue: "q", Group: "g", Wait: time.Second})
			d.minutes(1)
		}
		require.Len(t, d.statements, 1, "nothing happened")

		for range 3 {
			for i := range 3 {
				d.push(fmt.Sprint("queue ", i), 2)
			}
			d.deliver("q", time.Second)
			d.minutes(1)
		}
		require.Len(t, d.statements, 4)
		byQueue := map[string]row{}
		for _, row := range d.statements[1] {
			byQueue[row.Queue] = row
		}
		require.Len(t, byQueue, 4)
		require.EqualValues(t, 2, byQueue["queue 1"].PushMessages)
		require.EqualValues(t, 1, byQueue["queue 1"].PushRequests)
		require.EqualValues(t, 20, byQueue["q"].PopEmpty, "the empty answers of the idle minutes")
		require.EqualValues(t, 1009, *byQueue["q"].Parked)
		require.Zero(t, byQueue["q"].At.Second())
		require.Equal(t, 3*time.Minute+30*time.Second, time.Since(byQueue["q"].At), "the row has the minute of the delivery")

		d.wait(0)
		d.minutes(1)
		require.Len(t, d.statements, 5)
		require.EqualValues(t, 0, *d.statements[4][0].Parked, "no request waits any more")
		d.minutes(600)
		require.Len(t, d.statements, 5)
		require.EqualValues(t, 5, d.written.Load())
	})
}

// While requests wait, the Writer writes an unchanged number once in an hour.
func TestWaitingRequestsAreWrittenOnceInAnHour(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		d.wait(7)
		d.minutes(180)
		require.Len(t, d.statements, 3)
		d.wait(0)
		d.minutes(1)
	})
}

// One client waits in a loop on each of 1,000 queues. At each count, another one of the clients is between two requests.
// The Writer writes only in the first minute, and its sum is right.
func TestAClientBetweenTwoRequestsIsNoChange(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		absent := 0
		d.mu.Lock()
		d.waiting = func() map[Key]int64 {
			absent++
			waiting := map[Key]int64{}
			for i := range 1000 {
				if i != absent%1000 {
					waiting[Key{fmt.Sprint("queue ", i), "g"}] = 1
				}
			}
			return waiting
		}
		d.mu.Unlock()
		d.minutes(50)
		require.Len(t, d.statements, 1)
		require.Len(t, d.statements[0], maxParked)
		sum := int64(0)
		for _, row := range d.statements[0] {
			sum += *row.Parked
		}
		require.EqualValues(t, 1000, sum)
		d.wait(0)
		d.minutes(1)
	})
}

// The Writer writes the rows of a failed statement again, unchanged, together with the rows of the next minute.
func TestRowsOfAFailedStatementAreWrittenAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		d.failWith(errors.New("the database is unavailable"))
		d.push("q", 5)
		d.minutes(1)
		d.push("q", 7)
		d.minutes(2)
		d.failWith(nil)
		d.minutes(1)
		d.minutes(5)
		require.Len(t, d.statements, 4)
		require.EqualValues(t, 1, d.written.Load())
		require.Equal(t, d.statements[0], d.statements[3][:1])
		require.Len(t, d.statements[3], 2)
		require.EqualValues(t, 7, d.statements[3][1].PushMessages)
		require.NotEqual(t, d.statements[3][0].At, d.statements[3][1].At)
	})
}

// While the database is unavailable, the number of unwritten rows is bounded, and no count is lost.
func TestAnOutageKeepsTheCountsInBoundedMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		const queues, minutes = 400, 15
		d.failWith(errors.New("the database is unavailable"))
		for range minutes {
			for i := range queues {
				d.push(fmt.Sprint(i), 1)
			}
			d.minutes(1)
		}
		require.Less(t, len(d.unwritten), maxUnwritten+maxRows)
		require.GreaterOrEqual(t, len(d.unwritten), maxUnwritten)
		d.failWith(nil)
		d.minutes(2)
		sum := int64(0)
		for _, statement := range d.statements[len(d.statements)-2:] {
			for _, row := range statement {
				sum += row.PushMessages
			}
		}
		require.EqualValues(t, queues*minutes, sum)
	})
}

// When the server stops, the Writer writes the counts of the current minute.
func TestTheLastMinuteIsWrittenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * time.Second)
		d := run(t)
		d.push("q", 3)
		synctest.Wait()
		d.stop()
		require.Len(t, d.statements, 1)
		require.EqualValues(t, 3, d.statements[0][0].PushMessages)
		require.True(t, time.Now().Truncate(time.Minute).Equal(d.statements[0][0].At))
	})
}

// At most maxRows keys have a row: the keys with the most messages. The Writer sums the others as Other. The total is
// exact.
func TestTheLeastBusyQueuesAreOneRow(t *testing.T) {
	inBubble(t, func(t *testing.T, d *testWriter) {
		const queues = maxKeys + 1000
		for i := range queues {
			d.push(fmt.Sprint(i), 1)
		}
		d.push("busy", 10) // although so many came before it
		d.minutes(1)
		require.Len(t, d.statements, 1)
		require.LessOrEqual(t, len(d.statements[0]), maxRows)
		require.GreaterOrEqual(t, len(d.statements[0]), maxRows-1)
		sum, names := int64(0), map[string]int64{}
		for _, row := range d.statements[0] {
			names[row.Queue] = row.PushMessages
			sum += row.PushMessages
		}
		require.EqualValues(t, queues+10, sum)
		require.EqualValues(t, 10, names["busy"])

		totals := d.Totals()
		require.Len(t, totals, 10)
		require.EqualValues(t, 10, totals["busy"].PushMessages)
	})
}
