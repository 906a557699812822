package store_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/config/setting"
	"github.com/belfry-mq/belfry/pkg/engine/seal"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
)

// The store takes back an autoAck delivery that it cannot decrypt. The dead letter behind it
// stays a dead letter.
func TestTakingBackADeliveryKeepsItsDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("7", 64))})
	require.NoError(t, err)
	keyless := b.Store
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), sealer)
	b.register("g")
	b.exec(`UPDATE belfry.queue SET encryption_enabled = true`)
	b.push("p", "a", "b", "c", "d")
	d := b.pop(request("g", 4))
	require.True(t, b.ack(d, queue.AckDead, d.Messages[2])[0].DeadLettered)
	require.True(t, b.ack(d, queue.AckRetry, d.Messages[0])[0].Success)

	req := request("g", 3) // a and b: up to the dead letter
	req.AutoAck = true
	_, err = keyless.Pop(t.Context(), req)
	require.ErrorIs(t, err, seal.ErrNoKey)
	b.retryNow()
	d = b.pop(request("g", 4))
	require.Equal(t, []string{"a", "b"}, transactionIDs(d))
	b.ack(d, queue.AckCompleted, d.Messages...)
	require.Equal(t, []string{"d"}, transactionIDs(b.pop(request("g", 4))))
}

// Taking back a delivery restores the failures and attempts of each partition, so the retryLimit
// holds. A partition without failures still has none.
func TestTakingBackADeliveryKeepsItsFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sealer, err := seal.New(seal.Config{Key: setting.Secret(strings.Repeat("7", 64))})
	require.NoError(t, err)
	keyless := b.Store
	b.Store = newStore(t, b.pool, prometheus.NewRegistry(), sealer)
	b.register("g")
	b.option("encryption_enabled = true")
	b.push("p", "a", "b")
	b.push("other", "c")
	for range 2 {
		d := b.pop(request("g", 1))
		require.Equal(t, []string{"a"}, transactionIDs(d))
		b.ack(d, queue.AckFailed, d.Messages...)
		b.exec(`UPDATE belfry.cursor SET ready_at = '2020-01-01' WHERE failures > 0`)
	}
	req := request("g", 3)
	req.AutoAck, req.Partitions = true, 2
	before := b.cursorStates("g")
	_, err = keyless.Pop(t.Context(), req)
	require.ErrorIs(t, err, seal.ErrNoKey)
	require.Equal(t, before, b.cursorStates("g"))
	require.Contains(t, before, "failures 2 attempts 2")
	require.EqualValues(t, 1, enginetest.Metric(t, b.reg, "belfry_pops_unopened_total"))
}
