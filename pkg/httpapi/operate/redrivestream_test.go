package operate_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestASummaryHasCountsAndCursors(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 16, 8, 41, 27, 123456000, time.UTC)
	f := &apitest.Fakes{}
	f.DeadLetters.Summary = deadletter.Summary{
		Examined: 10, Matched: 4, Next: deadletter.ListKey{FailedAt: at, ID: 6},
		Errors:      []deadletter.Count{{Queue: "q", Group: "g", Error: "no", N: 4, Oldest: at, Newest: at}},
		Partitions:  []deadletter.Count{{Queue: "q", Group: "g", Partition: "p", PartitionID: apitest.IDTwo, N: 4, Oldest: at, Newest: at}},
		LettersNext: deadletter.ListKey{FailedAt: at, ID: 7},
	}
	rec := apitest.Call(f, http.MethodGet, "/api/v1/dlq/summary?queue=q&consumerGroup=g&error="+strings.Repeat("%C3%BC", 201)+"&examine=99999999&limit=0&cursor=5_4", "")
	require.JSONEq(t, `{"total":null,"countedAt":null,"examined":10,"matched":4,"next":"1778920887123456_6",
		"errors":[{"queue":"q","consumerGroup":"g","errorMessage":"no","count":4,"oldest":"2026-05-16T08:41:27.123Z","newest":"2026-05-16T08:41:27.123Z"}],
		"shapes":[],"partitions":[{"queue":"q","consumerGroup":"g","partition":"p","partitionId":"`+apitest.IDTwo.String()+`","count":4,
			"oldest":"2026-05-16T08:41:27.123Z","newest":"2026-05-16T08:41:27.123Z"}],
		"messages":[],"pagination":{"limit":0,"next":"1778920887123456_7"}}`, rec.Body.String())
	require.Equal(t, "q g "+strings.Repeat("ü", 200), strings.Join(f.DeadLetters.Texts, " "), "the filter has the first 200 characters of the error")
	require.Equal(t, deadletter.SummaryBounds{Examine: 50_000, Groups: 50, Letters: 0}, f.DeadLetters.Bounds)
	require.Equal(t, deadletter.ListKey{FailedAt: time.UnixMicro(5), ID: 4}, f.DeadLetters.After)

	f = &apitest.Fakes{}
	rec = apitest.Call(f, http.MethodGet, "/api/v1/dlq/summary", "")
	require.JSONEq(t, `{"total":0,"countedAt":null,"examined":0,"matched":0,"next":null,"errors":[],"shapes":[],"partitions":[],"messages":[],"pagination":{"limit":50,"next":null}}`, rec.Body.String())
}

// event returns an event of a stream.
func event(kind, data string) string { return "event: " + kind + "\ndata: " + data + "\n\n" }

func TestARedriveStreamsItsProgress(t *testing.T) {
	t.Parallel()
	const body = `{"queue":"q","consumerGroup":"g","error":"no","rate":50}`
	one, two := deadletter.Result{Matched: 5, Taken: 2, Remaining: 3}, deadletter.Result{Matched: 5, Taken: 4, Skipped: 1}
	f := &apitest.Fakes{Streaming: true}
	f.DeadLetters.Progress = []deadletter.Result{one, two}
	rec := apitest.Call(f, http.MethodPost, "/api/v1/dlq/redrive/stream", body)
	require.Equal(t, "text/event-stream", rec.Header().Get("Content-Type"))
	require.Equal(t, "retry: 2000\n\n"+event("progress", `{"matched":5,"redriven":2,"skipped":0,"remaining":3}`)+
		event("closing", `{"matched":5,"redriven":4,"skipped":1,"remaining":0,"reason":"done"}`), rec.Body.String(), "the second report is not sent, because it is too early")
	require.Equal(t, "q g no", strings.Join(f.DeadLetters.Texts, " "))
	require.Equal(t, int64(50), f.DeadLetters.Rate)
	require.Equal(t, []string{"dead_letters.redrive"}, []string{f.Audit.Entries[0].Action})

	f.DeadLetters.FailWith = errors.New("secret")
	rec = apitest.Call(f, http.MethodPost, "/api/v1/dlq/redrive/stream", body)
	require.Contains(t, rec.Body.String(), `"remaining":0,"error":"internal error; the server's log has the details under error_id`)
	require.Contains(t, rec.Body.String(), `"reason":"error"`)
	require.NotContains(t, rec.Body.String(), "secret")

	f = &apitest.Fakes{} // the server stops
	f.DeadLetters.Progress = []deadletter.Result{one, two}
	rec = apitest.Call(f, http.MethodPost, "/api/v1/dlq/redrive/stream", body)
	require.Equal(t, "retry: 2000\n\n"+event("closing", `{"matched":5,"redriven":2,"skipped":0,"remaining":3,"reason":"shutdown"}`), rec.Body.String())

	f = &apitest.Fakes{Streaming: true}
	for bad, want := range map[string]string{
		`{"queue":"q","consumerGroup":"g","all":true,"dryRun":true}`: "dryRun is not possible here: use /api/v1/dlq/redrive, or GET /api/v1/dlq/count",
		`{"queue":"q","consumerGroup":"g","error":""}`:               `error must be the beginning of an error as a string, not ""`,
		`{"queue":"q"}`: "consumerGroup is required: send __QUEUE_MODE__ for the reader without a group",
	} {
		require.Equal(t, want, apitest.RequireError(t, apitest.Call(f, http.MethodPost, "/api/v1/dlq/redrive/stream", bad), http.StatusBadRequest))
		require.Zero(t, f.DeadLetters.Calls)
	}
}
