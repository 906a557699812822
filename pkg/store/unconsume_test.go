package store_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/pkg/seal"
)

// An autoAck delivery that cannot be opened is taken back. What was
// dead-lettered in the middle of it stays so.
func TestTakingBackADeliveryKeepsItsDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sealer, err := seal.New(seal.Config{Key: strings.Repeat("7", 64)})
	require.NoError(t, err)
	keyless := b.Store
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), sealer)
	b.register("g")
	b.exec(`UPDATE belfry.queue SET encryption_enabled = true`)
	b.push("p", "a", "b", "c", "d")
	d := b.pop(request("g", 4))
	require.True(t, b.ack(d, queue.AckDead, d.Messages[1])[0].DeadLettered)
	require.True(t, b.ack(d, queue.AckRetry, d.Messages[0])[0].Success)

	req := request("g", 3) // a, c and d: past the dead letter
	req.AutoAck = true
	_, err = keyless.Pop(t.Context(), req)
	require.ErrorIs(t, err, seal.ErrNoKey)
	require.Equal(t, []string{"a", "c", "d"}, transactionIDs(b.pop(request("g", 4))))
}
