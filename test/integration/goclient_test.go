package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	goclient "github.com/belfry-mq/belfry/pkg/client"
	"github.com/belfry-mq/belfry/pkg/client/api"
)

// goClient returns a client of servers. Its requests and answers must follow the OpenAPI document.
func goClient(t *testing.T, servers ...*server) *goclient.Client {
	t.Helper()
	config := goclient.Config{HTTPClient: documented(t, &http.Transport{MaxIdleConnsPerHost: 100})}
	for _, s := range servers {
		config.URLs = append(config.URLs, s.base)
	}
	c, err := goclient.New(config)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// consuming is the state of a consumer that checks the order of numbered messages.
type consuming struct {
	mu sync.Mutex
	// next is the next expected number of each partition. Lower numbers may arrive again.
	next map[string]int
	// gaps lists messages that arrived too early.
	gaps []string
	// reached closes when each partition has received its number of messages in want.
	reached chan struct{}
	want    map[string]int
}

func newConsuming(want map[string]int) *consuming {
	return &consuming{next: map[string]int{}, want: want, reached: make(chan struct{})}
}

func (c *consuming) see(partition string, number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number > c.next[partition] {
		c.gaps = append(c.gaps, fmt.Sprintf("%s: %d instead of %d", partition, number, c.next[partition]))
	}
	c.next[partition] = max(c.next[partition], number+1)
	for partition, n := range c.want {
		if c.next[partition] < n {
			return
		}
	}
	if c.want != nil {
		close(c.reached)
		c.want = nil
	}
}

// The client must treat failures as the server does. In the end every message is completed or a dead letter, in order, and
// no lease remains.
func TestGoClientConsumes(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := goClient(t, s)
	s.client(t).configure("orders", map[string]any{"retryLimit": 1, "leaseTime": 1}).ok(http.StatusOK)
	const each = 20
	want := map[string]int{}
	for p := range 4 {
		items := make([]goclient.Item, each)
		for i := range items {
			items[i] = goclient.Item{Queue: "orders", Partition: fmt.Sprint(p), Payload: i}
		}
		want[fmt.Sprint(p)] = each
		stored, err := c.PushMany(t.Context(), items)
		require.NoError(t, err)
		require.Len(t, stored, each)
	}
	seen := newConsuming(want)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	slow := make(chan struct{})
	time.AfterFunc(1500*time.Millisecond, func() { close(slow) }) // longer than the lease
	ended := make(chan error, 1)
	go func() {
		ended <- goclient.Consume(ctx, c, goclient.ConsumeOptions{Queue: "orders", Group: "billing", Concurrency: 3, Batch: 7, Partitions: 2},
			func(ctx context.Context, m *goclient.Message[int]) error {
				seen.see(m.Partition, m.Data)
				switch {
				case m.Data == 3:
					return errors.New("always fails")
				case m.Data == 5:
					return goclient.DeadLetter(errors.New("at once"))
				case m.Data == 7 && m.Attempt == 1:
					panic("once")
				case m.Data == 9 && m.Partition == "0":
					select {
					case <-slow:
					case <-ctx.Done():
					}
				}
				return nil
			})
	}()
	select {
	case <-seen.reached:
	case err := <-ended:
		require.FailNow(t, "the consumer ended", "%v", err)
	case <-time.After(patience):
		require.FailNow(t, "messages are missing", "%v", seen.next)
	}
	var left, dead, leased int
	settled := func() bool {
		s.scan(t, `SELECT sum(p.last_seq - c.committed), count(*) FILTER (WHERE c.lease_id IS NOT NULL)
			FROM belfry.cursor c JOIN belfry.partition p ON p.id = c.partition_id`, nil, &left, &leased)
		return left == 0
	}
	until(t, "all messages are settled", settled)
	stop()
	require.NoError(t, <-ended)
	require.Empty(t, seen.gaps)
	require.True(t, settled())
	s.scan(t, `SELECT count(*) FROM belfry.dead_letter`, nil, &dead)
	require.Equal(t, []int{0, 8}, []int{leased, dead})
}

// A stopped consumer must leave no lease and count no failure. So another consumer receives the remaining messages at once.
func TestGoClientStops(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := goClient(t, s)
	s.client(t).pushIDs("q", "p", "0", "1", "2", "3")
	for m, err := range goclient.Messages[any](t.Context(), c, goclient.ConsumeOptions{Queue: "q"}) {
		require.NoError(t, err)
		m.Settle(nil)
		if m.TransactionID == "1" {
			break
		}
	}
	got, err := c.Pop(t.Context(), goclient.PopOptions{Queue: "q", Batch: 10})
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "2", got[0].TransactionID)

	until, err := c.Extend(t.Context(), got[0].LeaseID, time.Hour)
	require.NoError(t, err)
	require.Greater(t, time.Until(until), 50*time.Minute)
	commit := goclient.Transaction{
		Acks:   []goclient.Ack{got[0].Ack(goclient.Completed, nil), got[1].Ack(goclient.DeadLettered, errors.New("no"))},
		Pushes: []goclient.Item{{Queue: "out", TransactionID: "t", Payload: 1}},
	}
	require.NoError(t, c.Transact(t.Context(), commit))
	require.NoError(t, c.Transact(t.Context(), commit), "a repeated transaction must be applied once")
	commit.Pushes[0].TransactionID = "t2"
	require.ErrorIs(t, c.Transact(t.Context(), commit), goclient.ErrRefused)
	_, err = c.Extend(t.Context(), got[0].LeaseID, time.Hour)
	require.ErrorIs(t, err, goclient.ErrLeaseLost)
	_, err = c.Push(t.Context(), goclient.Item{Queue: "q", TraceID: "no uuid"})
	require.ErrorIs(t, err, goclient.ErrInvalid)
	s.client(t).switchTo(maintenancePath, "true")
	stored, err := c.Push(t.Context(), goclient.Item{Queue: "buffered"})
	require.NoError(t, err)
	require.Equal(t, goclient.Buffered, stored.Status)
}

// A handler that asks for a retry must get the message again only after a pause. An ack in a transaction can set the pause
// too.
func TestGoClientPausesARetry(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := goClient(t, s)
	s.client(t).pushIDs("q", "p", "1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var at []time.Time
	later := errors.New("later")
	err := goclient.Consume(ctx, c, goclient.ConsumeOptions{Queue: "q"}, func(_ context.Context, m *goclient.Message[json.RawMessage]) error {
		switch at = append(at, time.Now()); len(at) {
		case 1:
			return goclient.RetryLater(later)
		case 2:
			return goclient.RetryAfter(300*time.Millisecond, later)
		case 3:
			ack := m.Ack(goclient.Retry, later)
			ack.RetryAfterSeconds = 0.2
			return errors.Join(c.Transact(ctx, goclient.Transaction{Acks: []goclient.Ack{ack}}), goclient.ErrAcknowledged)
		}
		cancel()
		return nil
	})
	require.NoError(t, err)
	require.Len(t, at, 4)
	for i, pause := range []time.Duration{time.Second, 300 * time.Millisecond, 200 * time.Millisecond} {
		require.GreaterOrEqual(t, at[i+1].Sub(at[i]), pause)
	}
}

// A program of an operator can configure, redrive, seek and delete with typed calls.
func TestGoClientAdministers(t *testing.T) {
	t.Parallel()
	c, ctx := goClient(t, start(t)), t.Context()
	set, err := c.Configure(ctx, goclient.Configuration{Queue: "a/b", Namespace: "shop", Options: goclient.Options{LeaseTime: new(int64(7))}})
	require.NoError(t, err)
	require.EqualValues(t, 7, *set.Options.LeaseTime)

	_, err = c.PushMany(ctx, []goclient.Item{{Queue: "a/b", TransactionID: "one", Payload: 1, Headers: map[string]string{"Tenant": "acme"}}, {Queue: "a/b", TransactionID: "two", Payload: 2}})
	require.NoError(t, err)
	pop := func() *goclient.Raw {
		t.Helper()
		got, err := c.Pop(ctx, goclient.PopOptions{Queue: "a/b", Group: "g", Batch: 1})
		require.NoError(t, err)
		require.Len(t, got, 1)
		return got[0]
	}
	first := pop()
	require.Equal(t, map[string]string{"tenant": "acme"}, first.Headers)
	_, err = c.Ack(ctx, goclient.Ack{TransactionID: first.TransactionID, PartitionID: first.PartitionID, LeaseID: first.LeaseID, Group: "g", Status: goclient.DeadLettered})
	require.NoError(t, err)
	which := goclient.Redrive{Queue: "a/b", Group: "g", TransactionID: "one", DryRun: true}
	counted, err := c.Redrive(ctx, which)
	require.NoError(t, err)
	require.EqualValues(t, 1, counted.Matched)
	require.Zero(t, counted.Redriven)
	which.DryRun = false
	redriven, err := c.Redrive(ctx, which)
	require.NoError(t, err)
	require.Equal(t, api.RedriveCounts{Matched: 1, Redriven: 1}, redriven.RedriveCounts)
	require.Equal(t, "one", pop().TransactionID)

	for _, to := range []goclient.SeekTo{{ToEnd: true}, {Timestamp: time.Now().Add(-time.Hour)}, {ToBeginning: true}} {
		moved, err := c.SeekGroup(ctx, "a/b", "g", to)
		require.NoError(t, err)
		require.EqualValues(t, 1, moved)
	}
	require.Equal(t, "one", pop().TransactionID)
	_, err = c.SeekGroup(ctx, "a/b", "g", goclient.SeekTo{})
	require.ErrorIs(t, err, goclient.ErrInvalid)
	_, err = c.Push(ctx, goclient.Item{Queue: "a/b", Partition: "p", TransactionID: "visit/1", Payload: 1, DelaySeconds: 3600})
	require.NoError(t, err)
	visit, err := c.FindMessage(ctx, "a/b", "p", "visit/1")
	require.NoError(t, err)
	at := time.Now().Add(2 * time.Hour)
	require.NoError(t, c.MoveMessage(ctx, visit.PartitionID, "visit/1", at))
	visit, err = c.FindMessage(ctx, "a/b", "p", "visit/1")
	require.NoError(t, err)
	require.WithinDuration(t, at, visit.VisibleAt, time.Millisecond)
	for _, want := range []bool{true, false} {
		existed, err := c.DeleteMessage(ctx, visit.PartitionID, "visit/1")
		require.NoError(t, err)
		require.Equal(t, want, existed)
	}
	_, err = c.FindMessage(ctx, "a/b", "p", "visit/1")
	require.ErrorIs(t, err, goclient.ErrNotFound)
	for _, want := range []bool{true, false} {
		existed, err := c.DeleteQueue(ctx, "a/b")
		require.NoError(t, err)
		require.Equal(t, want, existed)
	}
}

// A handler that knows that its service is down opens the breaker of its group, and no failure is counted. An operator opens and
// closes it too. The metric counts the breaker while it is not closed.
func TestGoClientPausesAGroup(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := goClient(t, s)
	_, err := c.Push(t.Context(), goclient.Item{Queue: "orders", TransactionID: "a", Payload: 1})
	require.NoError(t, err)
	limits := c.Limits()
	_, err = limits.Set(t.Context(), "orders", "billing", goclient.Limits{Breaker: &goclient.Breaker{Failures: 5}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	attempts := 0
	down := func(context.Context, *goclient.Message[int]) error {
		attempts++
		stop()
		return goclient.PauseGroup(time.Hour, errors.New("the bank is down"))
	}
	require.NoError(t, goclient.Consume(ctx, c, goclient.ConsumeOptions{Queue: "orders", Group: "billing"}, down))
	state, err := limits.Breaker(t.Context(), "orders", "billing")
	require.NoError(t, err)
	require.Equal(t, []any{"open", "client", int64(0)}, []any{state.State, *state.OpenedBy, state.FailuresInARow})
	require.Contains(t, *state.Reason, "the bank is down")
	require.InDelta(t, time.Hour, time.Until(*state.Until), float64(time.Minute))
	until(t, "the metric counts the breaker", func() bool { return s.metric(t, "belfry_breakers_open") == 1 })

	changed, err := limits.CloseBreaker(t.Context(), "orders", "billing")
	require.NoError(t, err)
	require.True(t, changed.Changed)
	until(t, "the metric does not count the breaker", func() bool { return s.metric(t, "belfry_breakers_open") == 0 })
	changed, err = limits.OpenBreaker(t.Context(), "orders", "billing", 2*time.Hour, "maintenance")
	require.NoError(t, err)
	require.InDelta(t, 2*time.Hour, time.Until(*changed.Until), float64(time.Minute))
	until(t, "the metric counts the breaker", func() bool { return s.metric(t, "belfry_breakers_open") == 1 })
	_, err = limits.Remove(t.Context(), "orders", "billing")
	require.NoError(t, err)
	until(t, "a group without a breaker does not count", func() bool { return s.metric(t, "belfry_breakers_open") == 0 })
	_, err = limits.OpenBreaker(t.Context(), "orders", "billing", 0, "")
	require.ErrorIs(t, err, goclient.ErrConflict)
	require.Equal(t, 1, attempts)
}
