package listen

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// flushed is one statement of a sender under test.
type flushed struct {
	after   time.Duration // since the start of the test
	entries []Entry
	canary  uint64
	bye     bool
}

// desk is a sender in a bubble, whose statements go to the test.
type desk struct {
	*Sender
	logs    *observer.ObservedLogs
	started time.Time
	flushes []flushed
	takes   time.Duration // by each statement; set before run
	stop    context.CancelFunc
	ended   chan time.Duration // after the start of the test

	mu   sync.Mutex
	fail error // of each statement
}

func (d *desk) failing(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	d := &desk{
		Sender: newSender(queue.NewID(), DefaultConfig(), zap.New(core)), logs: logs,
		started: time.Now(), ended: make(chan time.Duration, 1),
	}
	d.notify = func(ctx context.Context, payloads []string) error {
		f := flushed{after: time.Since(d.started)}
		for _, payload := range payloads {
			m, err := Decode(payload)
			require.NoError(t, err)
			f.entries = append(f.entries, m.Entries...)
			f.canary, f.bye = max(f.canary, m.Canary), f.bye || m.Goodbye
		}
		slices.SortFunc(f.entries, func(a, b Entry) int { return int(a.Partition - b.Partition) })
		d.flushes = append(d.flushes, f)
		if !pause(ctx, d.takes) {
			return ctx.Err()
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.fail
	}
	return d
}

func (d *desk) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d.stop = cancel
	go func() {
		if err := d.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		d.ended <- time.Since(d.started)
	}()
}

// at moves the clock of the bubble to an instant after the start.
func (d *desk) at(after time.Duration) {
	<-time.After(after - time.Since(d.started))
	synctest.Wait()
}

func ready1(partitions ...int64) (entries []Entry) {
	for _, p := range partitions {
		entries = append(entries, Ready(1, p, time.Time{}))
	}
	return entries
}

func TestTheFirstGoesAtOnceAndTheRestTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.run(t)
		d.at(time.Second)
		d.Send(ready1(1)...)
		synctest.Wait()
		d.at(time.Second + 3*time.Millisecond)
		d.Send(ready1(2, 3)...)
		d.at(time.Second + 4*time.Millisecond)
		d.Send(ready1(2)...)
		d.Send()
		d.at(2 * time.Second)
		require.Equal(t, []flushed{
			{after: time.Second, entries: ready1(1)},
			{after: time.Second + 10*time.Millisecond, entries: ready1(2, 3)},
		}, d.flushes)
		require.Equal(t, SenderStats{Flushes: 2, EntriesIn: 4, EntriesOut: 3}, d.Stats())
		d.stop()
		require.Equal(t, 2*time.Second, <-d.ended)
		require.Len(t, d.flushes, 2, "nothing to say, and nobody knows us to say goodbye to")
	})
}

func TestWhatIsMarkedDuringAFlushGoesInTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.takes = 50 * time.Millisecond
		d.Send(ready1(1)...) // before Run
		d.run(t)
		d.at(20 * time.Millisecond)
		d.Send(ready1(1, 2)...)
		d.at(time.Second)
		require.Equal(t, []flushed{
			{after: 0, entries: ready1(1)},
			{after: 50 * time.Millisecond, entries: ready1(1, 2)},
		}, d.flushes)
		d.stop()
		<-d.ended
	})
}

func TestAFailedFlushIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.failing(errors.New("connection reset"))
		send := d.notify
		d.notify = func(ctx context.Context, payloads []string) error {
			first := len(d.flushes) == 0
			err := send(ctx, payloads)
			if first {
				pause(ctx, 20*time.Millisecond)
			}
			return err
		}
		d.run(t)
		d.beat(3)
		d.Send(ready1(1)...)
		d.at(5 * time.Millisecond)
		d.Send(ready1(2)...) // while the first flush is under way
		d.at(10 * time.Second)
		require.Greater(t, len(d.flushes), 10)
		last := time.Duration(0)
		for i, f := range d.flushes[1:] {
			require.Equal(t, ready1(1, 2), f.entries)
			require.LessOrEqual(t, f.after-last, time.Second, "try %d", i)
			last = f.after
		}
		require.Greater(t, d.flushes[len(d.flushes)-1].after-d.flushes[len(d.flushes)-2].after, 800*time.Millisecond)
		require.Empty(t, d.beaten, "the canary was not sent")
		failures := d.Stats().Failures
		require.EqualValues(t, len(d.flushes), failures)

		d.failing(nil)
		d.at(12 * time.Second)
		require.Equal(t, SenderStats{Flushes: 1, Failures: failures, EntriesIn: 2, EntriesOut: 2}, d.Stats())
		require.EqualValues(t, 3, <-d.beaten)
		var texts []string
		for _, entry := range d.logs.All() {
			texts = append(texts, entry.Level.String()+" "+entry.Message)
		}
		require.Equal(t, []string{
			"warn notifications to other instances cannot be sent; they are kept and sent again",
			"info notifications to other instances are sent again",
		}, texts, "once per outage, not once per try")

		d.Send(ready1(3)...)
		synctest.Wait()
		require.Equal(t, 12*time.Second, d.flushes[len(d.flushes)-1].after, "the delay is forgotten")
		d.stop()
		<-d.ended
	})
}

func TestTheLatestCanaryIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.run(t)
		for n := range uint64(3) {
			d.beat(n + 1)
			d.at(time.Duration(n+1) * time.Second)
		}
		require.EqualValues(t, 3, <-d.beaten)
		require.Empty(t, d.beaten)
		d.stop()
		<-d.ended
	})
}

func TestStoppingSendsWhatIsMarkedAndTheGoodbyeInOneStatement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.run(t)
		d.beat(1)
		synctest.Wait()
		d.Send(ready1(1)...)
		d.stop()
		<-d.ended
		require.Equal(t, []flushed{{canary: 1}, {entries: ready1(1), bye: true}}, d.flushes)
		require.Zero(t, d.logs.Len())
	})
}

func TestStoppingLetsAFlushInFlightFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.takes = 300 * time.Millisecond
		d.run(t)
		d.Send(ready1(1)...)
		d.at(100 * time.Millisecond)
		d.Send(ready1(2)...)
		d.stop()
		require.Equal(t, 600*time.Millisecond, <-d.ended)
		require.Equal(t, []flushed{{entries: ready1(1)}, {after: 300 * time.Millisecond, entries: ready1(2)}}, d.flushes)
	})
}

func TestStoppingTriesAgainForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.failing(errors.New("connection refused"))
		d.run(t)
		d.Send(ready1(1)...)
		synctest.Wait()
		d.stop()
		d.at(time.Second)
		require.Empty(t, d.ended)
		d.failing(nil)
		<-d.ended
		require.EqualValues(t, 1, d.Stats().Flushes)
	})
}

func TestStoppingIsBounded(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*desk){
		"a statement that hangs": func(d *desk) { d.takes = time.Hour },
		"one that always fails":  func(d *desk) { d.failing(errors.New("connection refused")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				set(d)
				d.run(t)
				d.Send(ready1(1)...)
				d.at(time.Second)
				d.stop()
				require.Equal(t, time.Second+DefaultConfig().StopTimeout, <-d.ended)
				warnings := d.logs.FilterMessageSnippet("the last notifications were not sent").All()
				require.Len(t, warnings, 1)
			})
		})
	}
}
