package store_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
)

// payloadBytes is the size of the payloads of these tests. Postgres compresses payloads of this size.
const payloadBytes = 10_000

// pushPayloads pushes n messages of payloadBytes to a partition.
func (b *bench) pushPayloads(partition string, n int, compressible bool) {
	b.t.Helper()
	for i := range n {
		text := strings.Repeat("a", payloadBytes-2)
		if !compressible {
			random := make([]byte, payloadBytes/2-1)
			_, _ = rand.Read(random) // it never fails
			text = hex.EncodeToString(random)
		}
		_, err := b.Push(b.t.Context(), []queue.PushItem{{
			Queue: "q", Partition: partition, TransactionID: fmt.Sprintf("%s%d", partition, i), Payload: []byte(`"` + text + `"`),
		}})
		require.NoError(b.t, err)
	}
}

// requirePop pops from up to ten partitions and requires the messages.
func (b *bench) requirePop(autoAck bool, want ...string) queue.Delivery {
	b.t.Helper()
	req := request("g", 100)
	req.Partitions, req.AutoAck = 10, autoAck
	d := b.pop(req)
	require.Equal(b.t, want, transactionIDs(d))
	if !autoAck {
		b.ack(d, queue.AckCompleted, d.Messages...)
	}
	return d
}

// A pop delivers the messages that fit into its limit of bytes, from all its partitions together. It
// delivers at least one message. The rest is ready after the ack.
func TestAPopDeliversNoMoreBytesThanItsLimit(t *testing.T) {
	t.Parallel()
	const room = payloadBytes + 1100 // for one message
	for _, compressible := range []bool{false, true} {
		for _, autoAck := range []bool{false, true} {
			t.Run(fmt.Sprintf("compressible=%t/autoAck=%t", compressible, autoAck), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.register("g")
				b.pushPayloads("a", 3, compressible)
				b.pushPayloads("b", 3, compressible)
				b.LimitPops(2 * room)
				b.requirePop(autoAck, "a0", "a1")
				b.LimitPops(2*room - 1100)
				b.requirePop(autoAck, "b0")
				b.LimitPops(3 * room)
				d := b.requirePop(autoAck, "a2", "b1", "b2")
				require.Equal(t, 2, d.Partitions)

				b.pushPayloads("c", 2, compressible)
				b.LimitPops(1)
				b.requirePop(autoAck, "c0")
				b.LimitPops(2 * room)
				b.requirePop(autoAck, "c1")
				require.Zero(t, b.stranded())
			})
		}
	}
}

// The limit holds for redriven messages too, together with the messages of other partitions.
func TestARedeliveryDeliversNoMoreBytesThanItsLimit(t *testing.T) {
	t.Parallel()
	const room = payloadBytes + 1100
	for _, autoAck := range []bool{false, true} {
		t.Run(fmt.Sprintf("autoAck=%t", autoAck), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.register("g")
			b.pushPayloads("a", 4, true)
			b.deadLetter("a0", "a1", "a2", "a3")
			require.Equal(t, 4, b.redrive())
			b.LimitPops(2 * room)
			b.requirePop(autoAck, "a0", "a1")
			b.LimitPops(1)
			b.requirePop(autoAck, "a2")

			b.pushPayloads("b", 1, true)
			b.exec(`UPDATE belfry.cursor c SET ready_at = '2020-01-01' FROM belfry.partition p WHERE p.id = c.partition_id AND p.name = 'b'`)
			b.LimitPops(2*room - 1100)
			b.requirePop(autoAck, "b0")
			b.requirePop(autoAck, "a3")
			b.requireRedrives(0)
		})
	}
}

// What a pop moves past counts, also when nothing after it fits.
func TestAPopThatFitsNothingKeepsWhatItMovedPast(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.register("g")
	b.pushPayloads("a", 1, false)
	b.pushPayloads("b", 2, false)
	b.option("expire_after_seconds = 60")
	b.exec(`UPDATE belfry.message SET created_at = now() - interval '1 hour' WHERE transaction_id = 'b0'`)
	b.LimitPops(1)
	b.requirePop(false, "a0")
	var expired int
	b.scan(`SELECT sum(expired) FROM belfry.cursor`, nil, &expired)
	require.Equal(t, 1, expired)
	b.requirePop(false, "b1")
}
