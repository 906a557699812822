package queen_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/test/apitest"
)

func TestSubscriptionIsMoved(t *testing.T) {
	t.Parallel()
	const subscription = "/api/v1/consumer-groups/g/subscription"
	f := &apitest.Fakes{}
	rec := apitest.Call(f, "POST", subscription, `{"subscriptionTimestamp":"2026-05-16T14:00:00.123456+02:00"}`)
	require.JSONEq(t, `{"success":true,"consumerGroup":"g","newTimestamp":"2026-05-16T12:00:00.123Z","rowsUpdated":2}`, rec.Body.String())
	require.True(t, f.GroupCalls[0].Start.Equal(time.Date(2026, 5, 16, 12, 0, 0, 123_456_000, time.UTC)))
	for body, want := range map[string]string{
		``:                               "Empty request body",
		`{}`:                             "subscriptionTimestamp is required",
		`{"subscriptionTimestamp":null}`: "subscriptionTimestamp is required",
		`{"subscriptionTimestamp":5}`:    `subscriptionTimestamp must be a timestamp like "2026-05-16T08:41:27.123Z", not 5`,
		`{"subscriptionTimestamp":"x"}`:  `subscriptionTimestamp is "x": it must be a timestamp like`,
	} {
		f := &apitest.Fakes{}
		require.Contains(t, apitest.RequireError(t, apitest.Call(f, "POST", subscription, body), 400), want)
		require.False(t, f.Reached())
	}
}
