package data_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestPushItemsMayBeDelayed(t *testing.T) {
	t.Parallel()
	instant := time.Now().Add(queue.MaxPushDelay - time.Hour).UTC().Truncate(time.Microsecond)
	for fields, want := range map[string]queue.PushItem{
		`"delaySeconds":0`:                          {},
		`"delaySeconds":null,"visibleAt":null`:      {},
		`"delaySeconds":1.5`:                        {Delay: 1500 * time.Millisecond},
		`"delaySeconds":31536000`:                   {Delay: queue.MaxPushDelay},
		`"delaySeconds":5,"visibleAt":null`:         {Delay: 5 * time.Second},
		`"visibleAt":"2001-02-03T04:05:06.5+02:00"`: {VisibleAt: time.Date(2001, 2, 3, 2, 5, 6, 500_000_000, time.UTC)},
		`"visibleAt":"` + instant.Format(time.RFC3339Nano) + `","delaySeconds":null`: {VisibleAt: instant},
		`"delaySeconds":7,"delaySeconds":null,"visibleAt":"2001-02-03T04:05:06Z"`:    {VisibleAt: time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)},
	} {
		items, err := data.ParsePush([]byte(`{"items":[{"queue":"q",` + fields + `}]}`))
		require.NoError(t, err, fields)
		require.True(t, want.VisibleAt.Equal(items[0].VisibleAt), "%s: %s", fields, items[0].VisibleAt)
		items[0].VisibleAt = want.VisibleAt
		want.Queue, want.Partition, want.Payload = "q", "Default", json.RawMessage("null")
		require.Equal(t, want, items[0], fields)
	}
}

func TestInvalidDelaysAreRefused(t *testing.T) {
	t.Parallel()
	const seconds = "items[1].delaySeconds must be a number between 0 and 31536000 (a year), not "
	const instant = "items[1].visibleAt must be an instant as in RFC 3339, such as 2026-05-16T08:41:27.5Z, not "
	const both = "items[1].delaySeconds and visibleAt are both set: send one of them"
	for fields, want := range map[string]string{
		`"delaySeconds":"5"`: seconds + `"5"`, `"delaySeconds":-0.1`: seconds + "-0.1", `"delaySeconds":true`: seconds + "true",
		`"delaySeconds":31536001`: seconds + "31536001", `"delaySeconds":1e99`: seconds + "1e99", `"delaySeconds":[]`: seconds + "[]",
		`"visibleAt":"2030-01-01"`: instant + `"2030-01-01"`, `"visibleAt":7`: instant + "7", `"visibleAt":""`: instant + `""`,
		`"visibleAt":"2030-01-01T00:00:00"`:                   instant + `"2030-01-01T00:00:00"`,
		`"visibleAt":"9999-01-01T00:00:00Z"`:                  "items[1].visibleAt is 9999-01-01T00:00:00Z: it must be at most 31536000 seconds (a year) from now",
		`"delaySeconds":0,"visibleAt":"2001-01-01T00:00:00Z"`: both,
		`"visibleAt":"2001-01-01T00:00:00Z","delaySeconds":3`: both,
	} {
		f := &apitest.Fakes{}
		rec := apitest.Call(f, "POST", "/api/v1/push", `{"items":[{"queue":"q"},{"queue":"q",`+fields+`}]}`)
		require.Equal(t, want, apitest.RequireError(t, rec, http.StatusBadRequest), fields)
		require.False(t, f.Reached(), "the push must not reach the store")
	}
}

func TestFullQueueIs429(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Push: func([]queue.PushItem) ([]queue.PushResult, error) {
		return nil, &queue.Error{Code: queue.CodeQueueFull, Message: "queue \"q\" is full", RetryAfter: time.Second}
	}}
	rec := apitest.Call(f, "POST", "/api/v1/push", `{"items":[{"queue":"q"}]}`)
	require.Equal(t, `queue "q" is full`, apitest.RequireError(t, rec, http.StatusTooManyRequests))
	require.Equal(t, "1", rec.Header().Get("Retry-After"))
}
