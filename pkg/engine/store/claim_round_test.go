package store_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/queue"
)

// One claim of a round returns messages that the store cannot decrypt. The other claims return
// their deliveries, and the store releases the lease of the undelivered messages.
func TestASealedQueueDoesNotFailTheOtherClaimsOfARound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("7", 64))})
	require.NoError(t, err)
	keyless := b.Store
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), sealer)
	b.register("g")
	b.exec(`UPDATE belfry.queue SET encryption_enabled = true`)
	b.push("p", "sealed")
	open := queue.PushItem{Queue: "other", Partition: "p", TransactionID: "open", Payload: []byte(`{}`)}
	_, err = b.Push(t.Context(), []queue.PushItem{open})
	require.NoError(t, err)
	var round []queue.Assignment
	for _, name := range []string{"other", "q", "other"} {
		req := request("g", 1)
		req.Queue = name
		target, ok, err := keyless.Resolve(t.Context(), req)
		require.NoError(t, err)
		require.True(t, ok)
		round = append(round, queue.Assignment{Request: req, Target: target})
	}
	deliveries, err := keyless.Claim(t.Context(), round)
	require.NoError(t, err)
	require.Equal(t, []string{"open"}, transactionIDs(deliveries[0]))
	require.Empty(t, deliveries[1].Messages)
	require.True(t, deliveries[1].Contested, "the request pops by itself")
	require.ErrorIs(t, deliveries[1].Undeliverable, seal.ErrNoKey)
	require.Empty(t, deliveries[2].Messages)
	b.retryNow()
	require.Equal(t, []string{"sealed"}, transactionIDs(b.pop(request("g", 1))), "the lease was released")
}

// A lease of a deleted queue is not live, so a transaction that requires it is refused.
func TestATransactionRefusesALeaseOfADeletedQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.push("p", "1")
	d := b.pop(request("g", 1))
	elsewhere := func(id string) queue.PushItem {
		return queue.PushItem{Queue: "other", Partition: "p", TransactionID: id, Payload: []byte(`{}`)}
	}
	b.applied(transaction(elsewhere("a"), d.LeaseID))
	b.exec(`UPDATE belfry.queue SET deleted_at = now() WHERE name = 'q'`)
	refused := b.transact(transaction(elsewhere("b"), d.LeaseID))
	require.False(t, refused.Applied)
	require.Contains(t, refused.Error, "is not live")
}
