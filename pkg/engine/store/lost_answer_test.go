package store_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/store"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/pgproxy"
)

// startRun starts Run in the background and returns once its first heal has ended.
func startRun(t *testing.T, s *store.Store) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		end()
		require.NoError(t, <-done)
	})
	enginetest.Await(t, "the heal of the start", func() bool { passes, _ := s.Heals(); return passes > 0 })
}

// The answer of a push is lost, and the push is sent again. The first try made the cursors ready,
// but no waiter learned of it. The second try announces them.
func TestAPushWithALostAnswerIsAnnounced(t *testing.T) {
	t.Parallel()
	direct, network, s := storeBehindProxy(t)
	direct.register("g")
	heard := &receiver{}
	s.Observe(heard)
	network.CutCommit.Store(true)
	results, err := s.Push(t.Context(), []queue.PushItem{item("p", "1")})
	require.NoError(t, err)
	require.False(t, results[0].Duplicate)
	require.False(t, network.CutCommit.Load(), "the answer was lost")
	require.Positive(t, len(heard.ready)+int(heard.resyncs.Load()))
	require.Len(t, direct.pop(request("g", 1)).Messages, 1)
}

// A transaction with a lost answer is sent again and announces its cursors.
func TestATransactionWithALostAnswerIsAnnounced(t *testing.T) {
	t.Parallel()
	direct, network, s := storeBehindProxy(t)
	direct.register("g")
	heard := &receiver{}
	s.Observe(heard)
	network.CutCommit.Store(true)
	result, err := s.Transact(t.Context(), transaction(item("p", "1")))
	require.NoError(t, err)
	require.True(t, result.Applied, result.Error)
	require.False(t, network.CutCommit.Load(), "the answer was lost")
	require.Positive(t, len(heard.ready)+int(heard.resyncs.Load()))
}

// An ack with a lost answer is not sent again, so its ready cursors are unknown. The store sends a
// resync event after the next heal.
func TestALostConnectionCausesAResync(t *testing.T) {
	t.Parallel()
	direct, network, s := storeBehindProxy(t)
	direct.push("p", "1")
	d := direct.pop(request("g", 1))
	heard := &receiver{}
	s.Observe(heard)
	startRun(t, s)
	require.Zero(t, heard.resyncs.Load())
	network.CutRowOf.Store(pgproxy.AckColumns)
	_, err := s.Ack(t.Context(), acks(d, queue.AckRetry, d.Messages...))
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	enginetest.Await(t, "the resync", func() bool { return heard.resyncs.Load() > 0 })
	passes, healed := s.Heals()
	require.Greater(t, passes, int64(1))
	require.Zero(t, healed, "the cursor was ready already")
	require.Len(t, direct.pop(request("g", 1)).Messages, 1)
}

// A push claims messages for a waiting request, and the answer is lost. The store releases that
// lease long before it would expire.
func TestAHandoffWithALostAnswerIsReleased(t *testing.T) {
	t.Parallel()
	direct, network, s := storeBehindProxy(t)
	direct.register("g")
	req := request("g", 1)
	target, _, err := direct.Resolve(t.Context(), req)
	require.NoError(t, err)
	s.Observe(&receiver{offered: req, target: target})
	network.CutCommit.Store(true)
	_, err = s.Push(t.Context(), []queue.PushItem{item("p", "1")})
	require.NoError(t, err)
	require.Empty(t, direct.pop(req).Messages, "the lost call has leased the partition")
	startRun(t, s)
	requireReleased(t, direct, req)
}

// A push claims for a waiting request with autoAck, and the answer is lost. The request must fail: the
// messages are perhaps consumed.
func TestAnAutoAckHandoffWithALostAnswerFailsItsRequest(t *testing.T) {
	t.Parallel()
	direct, network, s := storeBehindProxy(t)
	direct.register("g")
	req := request("g", 1)
	req.AutoAck = true
	target, _, err := direct.Resolve(t.Context(), req)
	require.NoError(t, err)
	r := &receiver{offered: req, target: target}
	s.Observe(r)
	network.CutCommit.Store(true)
	_, err = s.Push(t.Context(), []queue.PushItem{item("p", "1")})
	require.NoError(t, err)
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(r.taken[0].Lost))
}

// The answer of a round of claims is lost. The store releases the leases of the round.
func TestAClaimWithALostAnswerIsReleased(t *testing.T) {
	t.Parallel()
	direct, network, s := storeBehindProxy(t)
	direct.push("p", "1")
	req := request("g", 1)
	target, _, err := s.Resolve(t.Context(), req)
	require.NoError(t, err)
	network.CutRow.Store(true)
	_, err = s.Claim(t.Context(), []queue.Assignment{{Request: req, Target: target}})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	require.False(t, network.CutRow.Load())
	require.Empty(t, direct.pop(req).Messages, "the lost call has leased the partition")
	startRun(t, s)
	requireReleased(t, direct, req)
}

// requireReleased waits until a leased message is released and requires that its lost delivery counted no
// attempt.
func requireReleased(t *testing.T, b *bench, req *queue.PopRequest) {
	t.Helper()
	var got queue.Delivery
	enginetest.Await(t, "the message", func() bool {
		got = b.pop(req)
		return len(got.Messages) > 0
	})
	require.Equal(t, 1, got.Messages[0].Attempt, "the lost delivery counts no attempt")
}

// A retried claim releases the lease of its first try and may lease another partition. The store
// announces the partition of the first try.
func TestTheReleasedLeaseOfAnEarlierTryIsAnnounced(t *testing.T) {
	t.Parallel()
	direct, network, s := storeBehindProxy(t)
	direct.register("g")
	direct.push("p", "1")
	direct.push("other", "2")
	req := request("g", 1)
	_, ok, err := s.Resolve(t.Context(), req)
	require.NoError(t, err)
	require.True(t, ok)
	heard := &receiver{}
	s.Observe(heard)
	network.CutRow.Store(true)
	d, err := s.Pop(t.Context(), req)
	require.NoError(t, err)
	require.False(t, network.CutRow.Load(), "the answer was lost")
	require.Equal(t, []string{"2"}, transactionIDs(d), "partition other had been ready for longer")
	var partition int64
	direct.scan(`SELECT id FROM belfry.partition WHERE name = 'p'`, nil, &partition)
	require.Len(t, heard.ready, 1)
	require.Equal(t, partition, heard.ready[0].Partition)
	require.Equal(t, []string{"1"}, transactionIDs(direct.pop(req)))
}
