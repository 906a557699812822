package store_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/events"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// receiver records events and offers one waiting request.
type receiver struct {
	events.Nop
	// offered is the waiting request; nil: none waits. gone: the request no longer takes a delivery.
	offered *queue.PopRequest
	target  queue.Target
	gone    bool

	taken []queue.Delivery
	// order lists the calls.
	order []string
	ready []queue.Ready
	// resyncs counts the resync events.
	resyncs atomic.Int64
}

func (r *receiver) OnResync(string, events.Origin) { r.resyncs.Add(1) }

func (r *receiver) OnReady(ready []queue.Ready, _ events.Origin) {
	r.order, r.ready = append(r.order, "ready"), append(r.ready, ready...)
}

func (r *receiver) Handoffs(queueName, partition string) []queue.Handoff {
	r.order = append(r.order, "asked for "+queueName+"/"+partition)
	if r.offered == nil {
		return nil
	}
	return []queue.Handoff{{
		Assignment: queue.Assignment{Request: r.offered, Target: r.target},
		Take: func(d queue.Delivery) bool {
			r.order, r.taken = append(r.order, "take"), append(r.taken, d)
			return !r.gone && len(d.Messages) > 0
		},
	}}
}

// waiting returns a bench and a receiver that offers req.
func waiting(t *testing.T, req *queue.PopRequest) (*bench, *receiver) {
	t.Helper()
	b := newBench(t)
	b.register(req.Group)
	target, ok, err := b.Resolve(t.Context(), req)
	require.NoError(t, err)
	require.True(t, ok)
	r := &receiver{offered: req, target: target}
	b.Observe(r)
	return b, r
}

func TestAPushHandsItsMessagesToAWaitingRequest(t *testing.T) {
	t.Parallel()
	b, r := waiting(t, request("g", 2))
	b.push("p", "1", "2", "3")
	require.Equal(t, []string{"asked for q/p", "take", "ready"}, r.order)
	require.Len(t, r.taken, 1)
	d := r.taken[0]
	require.Equal(t, []string{"1", "2"}, transactionIDs(d))
	require.False(t, d.LeaseID.IsZero())
	require.Equal(t, "p", d.Messages[0].Partition.Name)
	require.Equal(t, 1, d.Messages[0].Attempt)
	require.Empty(t, b.pop(request("g", 1)).Messages, "the partition is leased")
	for _, result := range b.ack(d, queue.AckCompleted, d.Messages...) {
		require.True(t, result.Success, "%v", result)
	}
	r.offered = nil
	require.Equal(t, []string{"3"}, transactionIDs(b.pop(request("g", 1))))
}

func TestAHandoffThatIsNotTakenIsReleased(t *testing.T) {
	t.Parallel()
	b, r := waiting(t, request("g", 1))
	r.gone = true
	b.push("p", "1")
	require.Len(t, r.taken, 1)
	got := b.pop(request("g", 1))
	require.Equal(t, []string{"1"}, transactionIDs(got))
	require.Equal(t, 1, got.Messages[0].Attempt, "a handoff that was not taken counts no attempt")
}

// If the claim of a handoff fails, the push succeeds and announces its cursors.
func TestAPushSucceedsIfItsHandoffFails(t *testing.T) {
	t.Parallel()
	impossible := request("g", 1)
	b, r := waiting(t, request("g", 1))
	impossible.Partitions = -1
	r.offered = impossible
	require.False(t, b.push("p", "1")[0].Duplicate)
	require.Len(t, r.taken, 1)
	require.Empty(t, r.taken[0].Messages)
	require.Len(t, r.ready, 1)
	require.Equal(t, r.target.Group, r.ready[0].Group)
	require.Zero(t, b.stranded())
	require.Equal(t, []string{"1"}, transactionIDs(b.pop(request("g", 1))))
}

func TestAFailedPushEndsItsHandoffs(t *testing.T) {
	t.Parallel()
	b, r := waiting(t, request("g", 1))
	bad := item("p", "1")
	bad.Payload = []byte("{not json")
	_, err := b.Push(t.Context(), []queue.PushItem{bad})
	require.Error(t, err)
	require.Equal(t, []string{"asked for q/p", "take"}, r.order)
	require.Empty(t, r.taken[0].Messages)
}

func TestAPushToSeveralPartitionsMakesNoHandoff(t *testing.T) {
	t.Parallel()
	b, r := waiting(t, request("g", 1))
	_, err := b.Push(t.Context(), []queue.PushItem{item("p", "1"), item("other", "2")})
	require.NoError(t, err)
	require.Equal(t, []string{"ready"}, r.order)
}
