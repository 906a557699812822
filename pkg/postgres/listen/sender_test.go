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

	"github.com/belfry-mq/belfry/pkg/process/backoff"
	"github.com/belfry-mq/belfry/pkg/process/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// flushed is one statement of the sender.
type flushed struct {
	after   time.Duration // since the start of the test
	entries []queue.Ready
	canary  uint64
	bye     bool
	all     bool
}

// senderHarness is a sender in a synctest bubble. The test receives its statements.
type senderHarness struct {
	*Sender
	logs    *observer.ObservedLogs
	started time.Time
	flushes []flushed
	takes   time.Duration // the duration of each statement; set before run
	stop    context.CancelFunc
	ended   chan time.Duration // the end of Run, after the start of the test

	mu   sync.Mutex
	fail error // the result of each statement
}

func (h *senderHarness) failing(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail = err
}

func newSenderHarness(t *testing.T) *senderHarness {
	t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	h := &senderHarness{
		Sender: newSender(queue.NewID(), DefaultConfig(), zap.New(core)), logs: logs,
		started: time.Now(), ended: make(chan time.Duration, 1),
	}
	h.notify = func(ctx context.Context, payloads []string) error {
		f := flushed{after: time.Since(h.started)}
		for _, payload := range payloads {
			m, err := Decode(payload)
			require.NoError(t, err)
			f.entries = append(f.entries, m.Ready...)
			f.canary, f.bye, f.all = max(f.canary, m.Canary), f.bye || m.Goodbye, f.all || m.Resync
		}
		slices.SortFunc(f.entries, func(a, b queue.Ready) int { return int(a.Partition - b.Partition) })
		h.flushes = append(h.flushes, f)
		if err := backoff.Sleep(ctx, h.takes); err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.fail
	}
	return h
}

// inBubble runs a test with a sender in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, h *senderHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		test(t, newSenderHarness(t))
	})
}

func (h *senderHarness) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h.stop = cancel
	go func() {
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		h.ended <- time.Since(h.started)
	}()
}

// at advances the clock of the bubble to an instant after the start.
func (h *senderHarness) at(after time.Duration) {
	<-time.After(after - time.Since(h.started))
	synctest.Wait()
}

func ready1(partitions ...int64) (entries []queue.Ready) {
	for _, p := range partitions {
		entries = append(entries, Ready(1, p, time.Time{}))
	}
	return entries
}

func TestTheFirstEntryIsSentAtOnceAndTheNextEntriesTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, h *senderHarness) {
		h.run(t)
		h.at(time.Second)
		h.Send(ready1(1)...)
		synctest.Wait()
		h.at(time.Second + 3*time.Millisecond)
		h.Send(ready1(2, 3)...)
		h.at(time.Second + 4*time.Millisecond)
		h.Send(ready1(2)...)
		h.Send()
		h.at(2 * time.Second)
		require.Equal(t, []flushed{
			{after: time.Second, entries: ready1(1)},
			{after: time.Second + 10*time.Millisecond, entries: ready1(2, 3)},
		}, h.flushes)
		require.Equal(t, Counts{Flushes: 2, EntriesIn: 4, EntriesOut: 3}, h.Counts())
		h.stop()
		require.Equal(t, 2*time.Second, <-h.ended)
		require.Len(t, h.flushes, 2, "nothing is pending, and without a canary no goodbye is needed")
	})
}

func TestEntriesDuringAFlushAreSentWithTheNextFlush(t *testing.T) {
	inBubble(t, func(t *testing.T, h *senderHarness) {
		h.takes = 50 * time.Millisecond
		h.Send(ready1(1)...) // before Run
		h.run(t)
		h.at(20 * time.Millisecond)
		h.Send(ready1(1, 2)...)
		h.at(time.Second)
		require.Equal(t, []flushed{
			{after: 0, entries: ready1(1)},
			{after: 50 * time.Millisecond, entries: ready1(1, 2)},
		}, h.flushes)
		h.stop()
		<-h.ended
	})
}

func TestAFailedFlushIsSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, h *senderHarness) {
		h.failing(errors.New("connection reset"))
		send := h.notify
		h.notify = func(ctx context.Context, payloads []string) error {
			first := len(h.flushes) == 0
			err := send(ctx, payloads)
			if first {
				_ = backoff.Sleep(ctx, 20*time.Millisecond)
			}
			return err
		}
		h.run(t)
		h.sendCanary(3)
		h.Send(ready1(1)...)
		h.at(5 * time.Millisecond)
		h.Send(ready1(2)...) // while the first flush is under way
		h.at(10 * time.Second)
		require.Greater(t, len(h.flushes), 10)
		last := time.Duration(0)
		for i, f := range h.flushes[1:] {
			require.Equal(t, ready1(1, 2), f.entries)
			require.LessOrEqual(t, f.after-last, time.Second, "attempt %d", i)
			last = f.after
		}
		require.Greater(t, h.flushes[len(h.flushes)-1].after-h.flushes[len(h.flushes)-2].after, 800*time.Millisecond)
		require.Empty(t, h.sentCanaries, "the canary was not sent")
		failures := h.Counts().Failures
		require.EqualValues(t, len(h.flushes), failures)

		h.failing(nil)
		h.at(12 * time.Second)
		require.Equal(t, Counts{Flushes: 1, Failures: failures, EntriesIn: 2, EntriesOut: 2}, h.Counts())
		require.EqualValues(t, 3, <-h.sentCanaries)
		var texts []string
		for _, entry := range h.logs.All() {
			texts = append(texts, entry.Level.String()+" "+entry.Message)
		}
		require.Equal(t, []string{
			"warn sending notifications to other instances failed; they are kept and sent again",
			"info sending notifications to other instances works again",
		}, texts, "one warning for the whole outage, and not a warning for each attempt")

		h.Send(ready1(3)...)
		synctest.Wait()
		require.Equal(t, 12*time.Second, h.flushes[len(h.flushes)-1].after, "the delay starts again at NotifyInterval")
		h.stop()
		<-h.ended
	})
}

func TestTheLatestCanaryIsReported(t *testing.T) {
	inBubble(t, func(t *testing.T, h *senderHarness) {
		h.run(t)
		for n := range uint64(3) {
			h.sendCanary(n + 1)
			h.at(time.Duration(n+1) * time.Second)
		}
		require.EqualValues(t, 3, <-h.sentCanaries)
		require.Empty(t, h.sentCanaries)
		h.stop()
		<-h.ended
	})
}

func TestStoppingSendsPendingEntriesAndTheGoodbyeInOneStatement(t *testing.T) {
	inBubble(t, func(t *testing.T, h *senderHarness) {
		h.run(t)
		h.sendCanary(1)
		synctest.Wait()
		h.Send(ready1(1)...)
		h.stop()
		<-h.ended
		require.Equal(t, []flushed{{canary: 1}, {entries: ready1(1), bye: true}}, h.flushes)
		require.Zero(t, h.logs.Len())
	})
}

func TestStoppingLetsAFlushInFlightFinish(t *testing.T) {
	inBubble(t, func(t *testing.T, h *senderHarness) {
		h.takes = 300 * time.Millisecond
		h.run(t)
		h.Send(ready1(1)...)
		h.at(100 * time.Millisecond)
		h.Send(ready1(2)...)
		h.stop()
		require.Equal(t, 600*time.Millisecond, <-h.ended)
		require.Equal(t, []flushed{{entries: ready1(1)}, {after: 300 * time.Millisecond, entries: ready1(2)}}, h.flushes)
	})
}

func TestStoppingRetriesWithinTheStopTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, h *senderHarness) {
		h.failing(errors.New("connection refused"))
		h.run(t)
		h.Send(ready1(1)...)
		synctest.Wait()
		h.stop()
		h.at(time.Second)
		require.Empty(t, h.ended)
		h.failing(nil)
		<-h.ended
		require.EqualValues(t, 1, h.Counts().Flushes)
	})
}

func TestStoppingEndsWithTheStopTimeout(t *testing.T) {
	for name, set := range map[string]func(*senderHarness){
		"a statement that hangs":        func(h *senderHarness) { h.takes = time.Hour },
		"a statement that always fails": func(h *senderHarness) { h.failing(errors.New("connection refused")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, h *senderHarness) {
				set(h)
				h.run(t)
				h.Send(ready1(1)...)
				h.at(time.Second)
				h.stop()
				require.Equal(t, time.Second+DefaultConfig().StopTimeout, <-h.ended)
				warnings := h.logs.FilterMessageSnippet("the last notifications were not sent").All()
				require.Len(t, warnings, 1)
			})
		})
	}
}

// After a failure, the sender repeats the payloads for watchers in their order. While the failures continue, the oldest payloads
// are dropped.
func TestPayloadsForWatchersAreSentAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, h *senderHarness) {
		var sent [][]string
		h.notifyLive = func(_ context.Context, payloads []string) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.fail == nil {
				sent = append(sent, payloads)
			}
			return h.fail
		}
		h.failing(errors.New("away"))
		h.run(t)
		for _, payload := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} {
			h.SendLive(payload)
			h.at(time.Since(h.started) + time.Millisecond)
		}
		h.OnReady(ready1(1), events.Here)
		h.failing(nil)
		h.at(time.Minute)
		require.Equal(t, [][]string{{"2", "3", "4", "5", "6", "7", "8", "9"}}, sent)
		require.Equal(t, ready1(1), h.flushes[len(h.flushes)-1].entries)
		h.stop()
		<-h.ended
	})
}

func TestTheSenderSendsTheEventsOfThisInstanceOnly(t *testing.T) {
	at := time.Now()
	ready := []queue.Ready{{Group: 1, Partition: 2, At: at}, {Group: 1, Partition: 3, In: time.Second, At: at}}
	for _, from := range []events.Origin{events.Here, events.Peer, events.SQL} {
		sender, bus := newSender(queue.NewID(), DefaultConfig(), zap.NewNop()), &events.Bus{}
		bus.Subscribe(sender)
		bus.Ready(ready, from)
		bus.Created("orders", "1", from)
		if from != events.Here {
			bus.Resync("a queue was deleted", from)
			require.True(t, sender.pending.empty())
			continue
		}
		require.Equal(t, pendingNotifications{
			ready:   map[groupPartition]time.Time{{1, 2}: at, {1, 3}: {}}, // the receiver learns the second instant from the database
			created: true,
		}, sender.pending)
		bus.Resync("a queue was deleted", from)
		require.Equal(t, pendingNotifications{resync: true}, sender.pending)
	}
	sender, bus := newSender(queue.NewID(), DefaultConfig(), zap.NewNop()), &events.Bus{}
	bus.Subscribe(sender)
	bus.SQLWaiter(queue.SQLWaiter{})
	bus.Listening()
	bus.Inbox()
	require.True(t, sender.pending.empty(), "these events stay in this instance")
}

// A partition that became ready for many groups is one entry.
func TestAPartitionOfManyGroupsIsOneEntry(t *testing.T) {
	sender := newSender(queue.NewID(), DefaultConfig(), zap.NewNop())
	sender.QueueOf = func(partition int64) (int64, bool) { return 7, partition < 100 }
	at := time.UnixMicro(1_724_000_000_000_000).UTC()
	var ready []queue.Ready
	for group := range int64(10_000) {
		ready = append(ready, Ready(group+1, 2, at.Add(time.Duration(group)*time.Second)))
		ready = append(ready, queue.Ready{Group: group + 1, Partition: 3, In: time.Second, At: at}) // the receivers probe
	}
	sender.Send(append(ready, Ready(5, 4, at), Ready(5, 100, at), Ready(6, 100, at))...)
	require.Equal(t, pendingNotifications{
		ready:      map[groupPartition]time.Time{{5, 4}: at, {5, 100}: at, {6, 100}: at}, // partition 4 has one group; the queue of partition 100 is unknown
		partitions: map[int64]ReadyPartition{2: {Queue: 7, Partition: 2, At: at}, 3: {Queue: 7, Partition: 3}},
	}, sender.pending)
	payloads, hints := sender.pending.payloads(sender.instance)
	require.Len(t, payloads, 1)
	require.Equal(t, 5, hints)
}
