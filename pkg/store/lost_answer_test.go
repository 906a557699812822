package store_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/store"
)

// runs heals in the background, and returns when that of the start is through.
func runs(t *testing.T, s *store.Store) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		end()
		require.NoError(t, <-done)
	})
	await(t, "the heal of the start", func() bool { passes, _ := s.Heals(); return passes > 0 })
}

// A push whose answer was lost is sent again and finds itself, and its cursors
// awake: the first try woke them, and nobody heard of whom.
func TestWhoWaitsHearsOfAPushWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	direct, network, s := behind(t)
	direct.register("g")
	heard := &receiver{}
	s.Observe(heard)
	network.CutCommit.Store(true)
	results, err := s.Push(t.Context(), []queue.PushItem{item("p", "1")})
	require.NoError(t, err)
	require.False(t, results[0].Duplicate)
	require.False(t, network.CutCommit.Load(), "the answer was lost")
	require.Positive(t, len(heard.ready)+int(heard.doubts.Load()))
	require.Len(t, direct.pop(request("g", 1)).Messages, 1)
}

// The same of a transaction.
func TestWhoWaitsHearsOfATransactionWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	direct, network, s := behind(t)
	direct.register("g")
	heard := &receiver{}
	s.Observe(heard)
	network.CutCommit.Store(true)
	result, err := s.Transact(t.Context(), transaction(item("p", "1")))
	require.NoError(t, err)
	require.True(t, result.Applied, result.Error)
	require.False(t, network.CutCommit.Load(), "the answer was lost")
	require.Positive(t, len(heard.ready)+int(heard.doubts.Load()))
}

// What is not sent again is told of once the heal is through: nobody knows what
// the connection that broke had made ready.
func TestALostConnectionIsAReasonForDoubt(t *testing.T) {
	t.Parallel()
	direct, network, s := behind(t)
	direct.push("p", "1")
	d := direct.pop(request("g", 1))
	heard := &receiver{}
	s.Observe(heard)
	runs(t, s)
	require.Zero(t, heard.doubts.Load())
	network.CutCommit.Store(true)
	_, err := s.Ack(t.Context(), acks(d, queue.AckRetry, d.Messages...))
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	await(t, "the doubt", func() bool { return heard.doubts.Load() > 0 })
	passes, healed := s.Heals()
	require.Greater(t, passes, int64(1))
	require.Zero(t, healed, "its cursor was awake")
	require.Len(t, direct.pop(request("g", 1)).Messages, 1)
}

// What a push claimed for somebody who waits is leased to nobody when the answer is
// lost: it is given back long before the lease would end.
func TestAHandoffWhoseAnswerWasLostIsGivenBack(t *testing.T) {
	t.Parallel()
	direct, network, s := behind(t)
	direct.register("g")
	req := request("g", 1)
	target, _, err := direct.Resolve(t.Context(), req)
	require.NoError(t, err)
	s.Observe(&receiver{offered: req, target: target})
	network.CutCommit.Store(true)
	_, err = s.Push(t.Context(), []queue.PushItem{item("p", "1")})
	require.NoError(t, err)
	require.Empty(t, direct.pop(req).Messages, "it was claimed")
	runs(t, s)
	gotBack(t, direct, req)
}

// The same of the claims of a round.
func TestAClaimWhoseAnswerWasLostIsGivenBack(t *testing.T) {
	t.Parallel()
	direct, network, s := behind(t)
	direct.push("p", "1")
	req := request("g", 1)
	target, _, err := s.Resolve(t.Context(), req)
	require.NoError(t, err)
	network.CutRow.Store(true)
	_, err = s.Claim(t.Context(), []queue.Assignment{{Request: req, Target: target}})
	require.Equal(t, queue.CodeUnavailable, queue.CodeOf(err))
	require.False(t, network.CutRow.Load())
	require.Empty(t, direct.pop(req).Messages, "it was claimed")
	runs(t, s)
	gotBack(t, direct, req)
}

// gotBack awaits a message that was leased, as if that had never been.
func gotBack(t *testing.T, b *bench, req *queue.PopRequest) {
	t.Helper()
	var got queue.Delivery
	await(t, "the message", func() bool {
		got = b.pop(req)
		return len(got.Messages) > 0
	})
	require.Equal(t, 1, got.Messages[0].Attempt, "nobody saw the first delivery")
}

// A claim that is made again gives back what its first try has leased, and may take
// something else: who waits hears of the former.
func TestWhoWaitsHearsOfWhatAnEarlierTryHadLeased(t *testing.T) {
	t.Parallel()
	direct, network, s := behind(t)
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
	require.Equal(t, []string{"2"}, transactionIDs(d), "it had been ready for longer by then")
	var partition int64
	direct.scan(`SELECT id FROM belfry.partition WHERE name = 'p'`, nil, &partition)
	require.Len(t, heard.ready, 1)
	require.Equal(t, partition, heard.ready[0].Partition)
	require.Equal(t, []string{"1"}, transactionIDs(direct.pop(req)))
}
