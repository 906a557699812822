package integration_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// 200 pops wait, and 200 messages become visible at the same instant. One message cannot be read. The pop that gets its
// partition must fail. The other 199 pops must get their messages from the same wake, without waiting a second for another
// one. The server finds the unreadable message by halving the batch. `make bench-edge` measures the time.
func TestOneUnreadableMessageFailsOneOfManyWaitingPops(t *testing.T) {
	t.Parallel()
	const many, halvings = 200, 8
	c := start(t).client(t)
	c.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: many}} // without the checks of the OpenAPI document, which would take too long
	defer c.http.CloseIdleConnections()
	c.configure("q", nil).ok(http.StatusOK)
	waiting := make([]*pendingCall, many)
	for i := range waiting {
		waiting[i] = c.begin(popCall("q", "wait=true&timeout=60000"))
	}
	c.untilWaiting(many)

	noise := make([]byte, 50_000)
	_, _ = rand.Read(noise)
	large, err := json.Marshal(noise)
	require.NoError(t, err)
	visible := time.Now().Add(5 * time.Second).Truncate(time.Millisecond).UTC()
	items := make([]item, many)
	for i := range items {
		items[i] = item{Queue: "q", Partition: fmt.Sprint(i), VisibleAt: visible.Format(time.RFC3339Nano)}
	}
	items[77].Payload = large
	c.push(items...).ok(http.StatusCreated)
	pgtest.DamagePayloads(t, c.dsn)
	require.Negative(t, time.Since(visible), "the machine is too slow for this test")
	wakes := func(source, outcome string) float64 {
		return c.metric(t, fmt.Sprintf(`belfry_dispatch_wakes_total{outcome=%q,source=%q}`, outcome, source))
	}
	spurious := wakes("timer", "spurious")

	statuses := map[int]int{}
	for _, w := range waiting {
		receiveWithin(t, w.done, longestWait, "the pop is answered")
		statuses[w.reply.Status]++
	}
	require.Equal(t, map[int]int{http.StatusOK: many - 1, http.StatusInternalServerError: 1}, statuses)
	require.InDelta(t, many-1, wakes("timer", "delivered"), 0)
	require.InDelta(t, 1, wakes("timer", "spurious")-spurious, 0, "only the failed pop may count as a spurious wake")
	splits := c.metric(t, "belfry_dispatch_round_splits_total")
	require.Positive(t, splits)
	require.LessOrEqual(t, splits, float64(halvings))
}
