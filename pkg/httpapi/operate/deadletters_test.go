package operate_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/engine/deadletter"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestDeadLettersAreListed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 16, 8, 41, 27, 123456000, time.UTC)
	f := &apitest.Fakes{}
	f.DeadLetters.Letters = []deadletter.Letter{
		{
			ListKey: deadletter.ListKey{FailedAt: at, ID: 7}, Queue: "q", Group: "g", Partition: "p", PartitionID: apitest.IDTwo, Error: "<no>", Failures: 3,
			MessageID: apitest.IDOne, TransactionID: "t", ProducerSub: "me", CreatedAt: at, Payload: []byte(`{"a":"<b>"}`),
		},
		{ListKey: deadletter.ListKey{FailedAt: at, ID: 6}, Queue: "q", Group: "g", Partition: "p", PartitionID: apitest.IDTwo, PayloadError: "no key"},
	}
	rec := apitest.Call(f, http.MethodGet, "/api/v1/dlq?queue=q&consumerGroup=g&partition=p&from=2026-01-01&to=2027-01-01T00:00:00Z&limit=2&offset=1&cursor=5_4", "")
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, `{"messages":[{"id":"`+apitest.IDOne.String()+`","transactionId":"t","partitionId":"`+apitest.IDTwo.String()+`","queue":"q",`+
		`"partition":"p","consumerGroup":"g","errorMessage":"<no>","retryCount":3,"data":{"a":"<b>"},"producerSub":"me",`+
		`"createdAt":"2026-05-16T08:41:27.123Z","failedAt":"2026-05-16T08:41:27.123Z"},`+
		`{"id":null,"transactionId":null,"partitionId":"`+apitest.IDTwo.String()+`","queue":"q","partition":"p","consumerGroup":"g",`+
		`"errorMessage":"","retryCount":0,"data":null,"dataError":"no key","producerSub":null,"createdAt":null,`+
		`"failedAt":"2026-05-16T08:41:27.123Z"}],"total":2,"pagination":{"limit":2,"offset":1,"next":"1778920887123456_6"}}`,
		rec.Body.String())
	require.Equal(t, "q g p", strings.Join(f.DeadLetters.Texts, " "))
	require.Equal(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), f.DeadLetters.Filter.From)
	require.Equal(t, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), f.DeadLetters.Filter.To)
	require.Equal(t, deadletter.ListKey{FailedAt: time.UnixMicro(5), ID: 4}, f.DeadLetters.After)
	require.Equal(t, []int64{2, 1}, []int64{f.DeadLetters.Limit, f.DeadLetters.Offset})
}

func TestNoDeadLettersAreAnEmptyArray(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	rec := apitest.Call(f, http.MethodGet, "/api/v1/dlq?limit=5000&offset=-1", "")
	require.JSONEq(t, `{"messages":[],"total":0,"pagination":{"limit":1000,"offset":0,"next":null}}`, rec.Body.String())
	require.Equal(t, deadletter.Filter{}, f.DeadLetters.Filter)
	require.Equal(t, []int64{1000, 0}, []int64{f.DeadLetters.Limit, f.DeadLetters.Offset}, "the answer has the largest limit")
}

func TestInvalidDeadLetterQueriesAreRefused(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"from=soon":               `from is "soon": it must be an instant such as 2026-05-16T08:41:27.123Z`,
		"to=2026-02-30":           `to is "2026-02-30": it must be an instant such as 2026-05-16T08:41:27.123Z`,
		"cursor=x":                `cursor is "x": use pagination.next of the previous page`,
		"cursor=5_x":              `cursor is "5_x": use pagination.next of the previous page`,
		"cursor=-5_1":             `cursor is "-5_1": use pagination.next of the previous page`,
		"queue=%ff":               "queue is not UTF-8",
		"consumerGroup=%00":       "consumerGroup contains a NUL character: remove it",
		"transactionId=%00":       "transactionId contains a NUL character or is not UTF-8",
		"partition=" + long(256):  "partition is 256 bytes long: at most 255 are allowed",
		"cursor=9999999999999999": `cursor is "9999999999999999": use pagination.next of the previous page`,
	} {
		f := &apitest.Fakes{}
		require.Equal(t, want, apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/dlq?"+query, ""), http.StatusBadRequest))
		require.Zero(t, f.DeadLetters.Calls)
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestRedrivePassesItsFilterOn(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	rec := apitest.Call(f, http.MethodPost, "/api/v1/dlq/redrive",
		`{"queue":"q","consumerGroup":"g","partition":"p","transactionId":"t","from":"2026-01-01","to":null,"rate":50,"dryRun":true}`)
	require.JSONEq(t, `{"success":true,"queue":"q","consumerGroup":"g","dryRun":true,"matched":10,"redriven":5,"skipped":2,"remaining":3}`,
		rec.Body.String())
	require.Equal(t, "q g p t", strings.Join(f.DeadLetters.Texts, " "))
	require.Equal(t, int64(50), f.DeadLetters.Rate)
	require.True(t, f.DeadLetters.DryRun)
	require.Equal(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), f.DeadLetters.Filter.From)
	require.Zero(t, f.DeadLetters.Filter.To)
}

func TestARedriveToAnotherQueueMoves(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	const body = `{"queue":"q","consumerGroup":"g","all":true,"rate":50,"dryRun":true,"toQueue":"parked"}`
	rec := apitest.Call(f, http.MethodPost, "/api/v1/dlq/redrive", body)
	require.JSONEq(t, `{"success":true,"queue":"q","consumerGroup":"g","dryRun":true,"matched":10,"redriven":5,"skipped":2,"remaining":3,"toQueue":"parked"}`,
		rec.Body.String())
	require.Equal(t, "to parked q g", strings.Join(f.DeadLetters.Texts, " "))
	require.Equal(t, int64(50), f.DeadLetters.Rate)
	require.True(t, f.DeadLetters.DryRun)
	require.Equal(t, "toQueue is not possible in a stream: use /api/v1/dlq/redrive",
		apitest.RequireError(t, apitest.Call(f, http.MethodPost, "/api/v1/dlq/redrive/stream", body), http.StatusBadRequest))
}

func TestInvalidRedrivesAreRefused(t *testing.T) {
	t.Parallel()
	const named = `"queue":"q","consumerGroup":"g"`
	for body, want := range map[string]string{
		``:                      "Empty request body",
		`{"consumerGroup":"g"}`: "queue is required",
		`{"queue":"q"}`:         "consumerGroup is required: send __QUEUE_MODE__ for the reader without a group",
		`{"queue":"q","consumerGroup":"","all":true}`: "consumerGroup is required: send __QUEUE_MODE__ for the reader without a group",
		`{` + named + `}`:             "the dead letters are not selected: send transactionId, partition, error, errorShape, from or to, or all: true for every dead letter of the queue and consumerGroup",
		`{` + named + `,"all":false}`: "the dead letters are not selected: send transactionId, partition, error, errorShape, from or to, or all: true for every dead letter of the queue and consumerGroup",
		`{` + named + `,"all":1}`:     "all must be true or false, not 1",
		`{` + named + `,"dryRun":""}`: `dryRun must be true or false, not ""`,
		`{` + named + `,"rate":0}`:    "rate is 0: it must be between 1 and 100000 messages per second",
		`{` + named + `,"rate":1.5}`:  "rate must be a whole number, not 1.5",
		`{` + named + `,"from":5}`:    "from must be an instant as a string, not 5",
		`{` + named + `,"from":""}`:   `from must be an instant as a string, not ""`,
		`{` + named + `,"all":true,"from":"2026-01-02","to":"2026-01-01"}`: "to is before from: swap them",
		`{` + named + `,"to":"x"}`:                 `to is "x": it must be an instant such as 2026-05-16T08:41:27.123Z`,
		`{` + named + `,"all":true,"toQueue":"q"}`: "toQueue is the same as queue: remove toQueue to deliver the dead letters again",
		`{"queue":5}`: "queue must be a string, not 5",
		`{` + named + `,"all":true,"dryrun":true}`: `"dryrun" is not a field of a redrive: use queue, consumerGroup, partition, transactionId, ` +
			`error, errorShape, from, to, all, rate, toQueue, asOf and dryRun`,
	} {
		f := &apitest.Fakes{}
		require.Equal(t, want, apitest.RequireError(t, apitest.Call(f, http.MethodPost, "/api/v1/dlq/redrive", body), http.StatusBadRequest), body)
		require.Zero(t, f.DeadLetters.Calls)
	}
}

func TestPurgeReportsItsCounts(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	rec := apitest.Call(f, http.MethodDelete, "/api/v1/dlq?queue=q&dryRun=1&consumerGroup=g", "")
	require.JSONEq(t, `{"success":true,"queue":"q","dryRun":true,"matched":10,"purged":7,"remaining":3}`, rec.Body.String())
	require.True(t, f.DeadLetters.DryRun)
	require.Equal(t, "queue is required: send the queue of the dead letters to delete",
		apitest.RequireError(t, apitest.Call(f, http.MethodDelete, "/api/v1/dlq?consumerGroup=g", ""), http.StatusBadRequest))
}

func TestPurgeRefusesUnknownParameters(t *testing.T) {
	t.Parallel()
	const parameters = "is not a parameter of a purge: use queue, consumerGroup, partition, transactionId, error, errorShape, from, to, dryRun and asOf"
	for query, want := range map[string]string{
		"group=g":                       `"group" ` + parameters,
		"dry_run=true":                  `"dry_run" ` + parameters,
		"dryRun=True":                   `dryRun is "True": it must be true or false`,
		"dryRun=yes":                    `dryRun is "yes": it must be true or false`,
		"from=2026-01-02&to=2026-01-01": "to is before from: swap them",
	} {
		f := &apitest.Fakes{}
		require.Equal(t, want, apitest.RequireError(t, apitest.Call(f, http.MethodDelete, "/api/v1/dlq?queue=q&"+query, ""), http.StatusBadRequest))
		require.Zero(t, f.DeadLetters.Calls)
	}
	for _, query := range []string{"dryRun=false", "dryRun=0", "dryRun="} {
		f := &apitest.Fakes{}
		require.Equal(t, http.StatusOK, apitest.Call(f, http.MethodDelete, "/api/v1/dlq?queue=q&"+query, "").Code)
		require.False(t, f.DeadLetters.DryRun)
	}
	f := &apitest.Fakes{} // the earliest possible instant is still a filter
	require.Equal(t, http.StatusOK, apitest.Call(f, http.MethodDelete, "/api/v1/dlq?queue=q&to=0001-01-01T00:00:00Z", "").Code)
	require.Equal(t, 1, f.DeadLetters.Filter.To.Year())
	require.False(t, f.DeadLetters.Filter.To.IsZero())
}
