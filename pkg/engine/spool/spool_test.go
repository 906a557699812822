package spool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/belfry-mq/belfry/pkg/engine/spool"
	"github.com/belfry-mq/belfry/pkg/postgres"
	"github.com/belfry-mq/belfry/pkg/process/inflight"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world has a spool and a fake database. The database stores the texts of payloads, unless refuse
// returns an error.
type world struct {
	t    *testing.T
	cfg  spool.Config
	pool *postgres.Pool

	mu     sync.Mutex
	ended  chan struct{} // nil: no maintenance
	stored []string
	refuse func(text string) error
	// before is called before each push. It may be nil.
	before func(items []queue.PushItem)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	pool := enginetest.Pool(t, pgtest.Database(t))
	return &world{
		t: t, pool: pool, cfg: spool.Config{Dir: filepath.Join(t.TempDir(), "a", "b"), MaxBytes: 1 << 20},
		ended: make(chan struct{}), refuse: func(string) error { return nil },
	}
}

// Push implements spool.Pusher: it stores all items or none.
func (w *world) Push(_ context.Context, items []queue.PushItem) ([]queue.PushResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.before != nil {
		w.before(items)
	}
	for i := range items {
		if err := w.refuse(string(items[i].Payload)); err != nil {
			return nil, err
		}
	}
	for i := range items {
		w.stored = append(w.stored, string(items[i].Payload))
	}
	return make([]queue.PushResult, len(items)), nil
}

func (w *world) paused() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ended
}

func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.ended)
	w.ended = nil
}

func (w *world) contents() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.stored...)
}

// open starts a spool. stop stops it.
func (w *world) open() (s *spool.Spool, stop func()) {
	s = spool.New(w.cfg, spool.Deps{
		Pusher: w, Paused: w.paused, Pool: w.pool, Host: "here", Metrics: spool.NewMetrics(prometheus.NewRegistry()), Log: zap.NewNop(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		s.Close()
	})
	w.t.Cleanup(stop)
	return s, stop
}

func items(queueName string, payloads ...string) (out []queue.PushItem) {
	for _, p := range payloads {
		out = append(out, queue.PushItem{Queue: queueName, Partition: "p", Payload: json.RawMessage(p)})
	}
	return out
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	require.Eventually(w.t, ok, 30*time.Second, time.Millisecond, what)
}

// A message that fails with an unexpected error is refused only if other messages of its queue are stored. Otherwise the
// database may have a fault, and no message is refused. This also holds if the fault ends during the search for the
// message.
func TestOneBadMessageIsFound(t *testing.T) {
	t.Parallel()
	lastAlone := func(items []queue.PushItem) bool { return string(items[0].Payload) == "5" }
	for _, c := range []struct {
		name   string
		ends   func(items []queue.PushItem) bool // whether the fault ends before a push
		lost   bool                              // whether the database is unavailable at the first push after the fault
		stored []string
	}{
		{"between two passes", func(items []queue.PushItem) bool { return len(items) == 7 }, false, []string{"0", "1", "2", "3", "4", "5"}},
		{"in a pass", lastAlone, false, []string{"5", "0", "1", "2", "3", "4"}},
		{"in a pass that ends early", lastAlone, true, []string{"5", "0", "1", "2", "3", "4", "5"}}, // 5 is a duplicate
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			broken, mayEnd, tries := true, false, 0
			w.before = func(items []queue.PushItem) { broken = broken && (!mayEnd || !c.ends(items)) }
			w.refuse = func(text string) error {
				tries++
				if text == `"bad"` || broken {
					return errors.New("an unexpected failure")
				}
				if text == "0" && c.lost {
					c.lost = false
					return &queue.Error{Code: queue.CodeUnavailable, Message: "away"}
				}
				return nil
			}
			s, _ := w.open()
			for i := range 4 {
				_, err := s.Push(t.Context(), items("q", fmt.Sprint(i)))
				require.NoError(t, err)
			}
			_, err := s.Push(t.Context(), items("q", `4`, `"bad"`, `5`))
			require.NoError(t, err)
			w.end()
			_, err = s.Push(t.Context(), items("other", `"other"`))
			require.Error(t, err, "without messages in the spool, the push goes to the database")
			w.eventually("each message is tried alone", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return tries > 20
			})
			require.Equal(t, spool.Stats{Messages: 7, Bytes: s.Stats().Bytes}, s.Stats())
			w.mu.Lock()
			mayEnd = true
			w.mu.Unlock()
			w.eventually("all others are stored", func() bool { return s.Stats().Messages == 0 })
			require.Equal(t, c.stored, w.contents())
			rejected, err := s.Rejections(t.Context(), 9)
			require.NoError(t, err)
			require.Len(t, rejected, 1)
			require.Equal(t, `"bad"`, string(rejected[0].Payload))
			n, err := s.Discard()
			require.NoError(t, err)
			require.Equal(t, 1, n)
			w.eventually("nothing is left", func() bool { return s.Stats() == spool.Stats{} })
		})
	}
}

// The stored messages of a record leave the disk, even if the other messages of the record must
// wait.
func TestStoredMessagesOfARecordLeaveTheDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var full sync.Map
	full.Store("2", true)
	w.refuse = func(text string) error {
		if _, is := full.Load(text); is {
			return &queue.Error{Code: queue.CodeQueueFull, Message: "full"}
		}
		return nil
	}
	s, stop := w.open()
	_, err := s.Push(t.Context(), items("q", "0", "1", "2", "3"))
	require.NoError(t, err)
	w.end()
	w.eventually("two leave", func() bool { return s.Stats().Messages == 2 })
	stop()
	s, _ = w.open()
	require.Equal(t, 2, s.Stats().Messages)
	_, err = s.Push(t.Context(), items("q", "4"))
	require.NoError(t, err)
	full.Delete("2")
	w.eventually("all leave", func() bool { return s.Stats().Messages == 0 })
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, w.contents())
}

// A push that cannot be written to disk is refused and not lost silently.
func TestAPushThatTheDiskCannotTakeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.MaxBytes = 2000
	s, stop := w.open()
	_, err := s.Push(t.Context(), items("q", `"`+strings.Repeat("x", 3000)+`"`))
	require.Equal(t, queue.CodeOverloaded, queue.CodeOf(err))
	_, err = s.Push(t.Context(), items("q", "1"))
	require.NoError(t, err)
	require.NoError(t, s.Healthy())

	second, stopSecond := w.open()
	_, err = second.Push(t.Context(), items("q", "2"))
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err), "another process uses the directory")
	require.ErrorContains(t, second.Healthy(), "give each instance its own spool.dir")
	stopSecond()
	stop()

	w.cfg.Dir = filepath.Join(w.cfg.Dir, "spool.db", "below a file")
	third, _ := w.open()
	_, err = third.Push(t.Context(), items("q", "3"))
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	require.Error(t, third.Healthy())
}

// Pushes at the same time do not exceed spool.max_bytes together.
func TestPushesAtTheSameTimeShareTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.MaxBytes = 5000
	s, _ := w.open()
	var pushes sync.WaitGroup
	var accepted atomic.Int64
	begin := make(chan struct{})
	for i := range 50 {
		pushes.Go(func() {
			<-begin
			_, err := s.Push(t.Context(), items("q", fmt.Sprintf("%q", strings.Repeat("x", 1000+i))))
			if err == nil {
				accepted.Add(1)
				return
			}
			assert.Equal(t, queue.CodeOverloaded, queue.CodeOf(err))
		})
	}
	close(begin)
	pushes.Wait()
	require.LessOrEqual(t, s.Stats().Bytes, w.cfg.MaxBytes)
	require.Positive(t, accepted.Load())
	require.EqualValues(t, accepted.Load(), s.Stats().Messages)
	_, err := s.Push(t.Context(), items("q", "1"))
	require.NoError(t, err, "a refused push uses no space")
}

// A list of rejected messages has at most the messages that fit into the memory of its request, but at least
// one message.
func TestRejectionsFitIntoMemory(t *testing.T) {
	t.Parallel()
	const size, page = 100_000, 350_000
	w := newWorld(t)
	w.refuse = func(string) error { return &queue.Error{Code: queue.CodeInvalid, Message: "refused"} }
	s, _ := w.open()
	for range 8 {
		_, err := s.Push(t.Context(), items("q", `"`+strings.Repeat("x", size)+`"`))
		require.NoError(t, err)
	}
	w.end()
	w.eventually("all are rejected", func() bool { return s.Stats().Rejected == 8 })
	budget := inflight.NewBudget(1<<30, page)
	list := func(budget *inflight.Budget) ([]spool.Rejection, error) {
		return s.Rejections(inflight.With(t.Context(), budget.Reservation()), 1000)
	}
	found, err := list(budget)
	require.NoError(t, err)
	require.Len(t, found, page/size)
	require.GreaterOrEqual(t, budget.Used(), int64(page/size*size*inflight.AnswerCopies))
	found, err = list(inflight.NewBudget(1<<30, 1))
	require.NoError(t, err)
	require.Len(t, found, 1, "a page has at least one message")
	budget.Reservation().Cover(1 << 30)
	_, err = list(budget)
	require.Equal(t, queue.CodeOverloaded, queue.CodeOf(err))
}
