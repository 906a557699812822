package integration_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/pgtest"
)

// 200 pops wait, and 200 messages become visible at one instant. One of them cannot be read. The pop
// that gets its partition fails, and the other 199 have their messages at once. On a quiet machine
// that takes less than 100 ms. The test is not parallel, because it measures times.
func TestOneUnreadableMessageFailsOneOfManyWaitingPops(t *testing.T) { //nolint:paralleltest // see above
	const many = 200
	c := start(t).client(t)
	c.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: many}} // reading the OpenAPI document would take longer
	defer c.http.CloseIdleConnections()
	noise := make([]byte, 50_000)
	_, _ = rand.Read(noise)
	large, err := json.Marshal(noise)
	require.NoError(t, err)
	visible := time.Now().Add(6 * time.Second).Truncate(time.Millisecond).UTC()
	items := make([]item, many)
	for i := range items {
		items[i] = item{Queue: "q", Partition: fmt.Sprint(i), VisibleAt: visible.Format(time.RFC3339Nano)}
	}
	items[77].Payload = large
	c.push(items...).ok(http.StatusCreated)
	pgtest.DamagePayloads(t, c.dsn)

	var answered sync.WaitGroup
	took, statuses := make([]time.Duration, many), make([]int, many)
	for i := range many {
		waiting := c.begin(popCall("q", "wait=true&timeout=60000"))
		answered.Go(func() {
			<-waiting.done
			took[i], statuses[i] = time.Since(visible), waiting.reply.Status
		})
	}
	c.untilWaiting(many)
	require.Negative(t, time.Since(visible), "the machine is too slow for this test")
	answered.Wait()
	slices.Sort(took)
	slices.Sort(statuses)
	t.Logf("answered after %s at the earliest, %s in the middle, %s at the latest", took[0], took[many/2], took[many-1])
	require.Equal(t, http.StatusOK, statuses[many-2])
	require.Equal(t, http.StatusInternalServerError, statuses[many-1])
	require.Less(t, took[many-1], time.Second)
	require.Positive(t, c.metric(t, "belfry_dispatch_round_splits_total"))
}
