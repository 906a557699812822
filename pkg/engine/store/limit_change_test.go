package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/enginetest"
	"github.com/belfry-mq/belfry/test/limitcheck"
)

// A change of the rate allows no burst, also if the bucket then has more or fewer parts. Afterwards the new rate holds exactly.
func TestAChangeOfTheRateAllowsNoBurst(t *testing.T) {
	b := newBench(t, "g")
	b.pushEach(300)
	require.NoError(t, limitcheck.Watch(t.Context(), b.pool))
	set := func(limits string) {
		b.scan(`SELECT changed FROM belfry.set_limits('q', 'g', $1)`, []any{limits}, new(bool))
	}
	set(`{"rateLimit":{"messages":20,"per":"1h","burst":20}}`)
	require.Len(t, b.pop(request("g", 300, across(300))).Messages, 20)
	for _, limits := range []string{
		`{"rateLimit":{"messages":160,"per":"1h","burst":160}}`, `{"rateLimit":{"messages":3,"per":"1h","burst":3}}`, `{"concurrency":300}`,
		`{"rateLimit":{"messages":200,"per":"1h","burst":200}}`,
	} {
		set(limits)
		if limits != `{"concurrency":300}` {
			require.Empty(t, b.pop(request("g", 300, across(300))).Messages, limits)
		}
	}
	begun := time.Now()
	set(`{"rateLimit":{"messages":100,"per":"1s","burst":48}}`)
	enginetest.Await(t, "the end of the messages", func() bool { return len(b.pop(request("g", 300, across(300))).Messages) > 0 && b.liveLeases() == 300 })
	leases, err := limitcheck.Read(t.Context(), b.pool, "g")
	require.NoError(t, err)
	require.Empty(t, limitcheck.Rate(leases[20:], limitcheck.Bucket{Messages: 100, Per: time.Second, Burst: 48}))
	require.GreaterOrEqual(t, time.Since(begun), 2800*time.Millisecond, "280 messages, from an empty bucket")
}

// A group gets a concurrency while it has live leases. They count, also if the group had a concurrency before.
func TestANewConcurrencyCountsTheLiveLeases(t *testing.T) {
	b := newBench(t, "g")
	b.pushEach(9)
	set := func(limits string) {
		b.scan(`SELECT changed FROM belfry.set_limits('q', 'g', $1)`, []any{limits}, new(bool))
	}
	for _, before := range []string{"no limits", `{"rateLimit":{"messages":1000,"per":"1s"}}`} {
		if before != "no limits" {
			set(before)
		}
		held := []queue.Delivery{b.pop(request("g", 1)), b.pop(request("g", 1)), b.pop(request("g", 1))}
		set(`{"concurrency":2}`)
		for _, d := range held[:2] {
			require.True(t, b.pop(request("g", 1)).Limited, before)
			b.ack(d, queue.AckRetry, d.Messages...)
		}
		require.Len(t, b.pop(request("g", 9, across(9))).Messages, 1, before)
		require.True(t, b.pop(request("g", 1)).Limited)
		require.Equal(t, 2, b.liveLeases())
		b.exec(`UPDATE belfry.cursor SET lease_id = NULL, lease_until = NULL, lease_end = NULL, retry_at = NULL, failures = 0, ready_at = now()
			FROM belfry.partition p WHERE p.id = partition_id AND p.last_seq > 0`)
	}
}
