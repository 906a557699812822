package adminplane_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/deadletter"
	"github.com/belfry-mq/belfry/pkg/queue"
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
		"cursor=x":                `cursor is "x": use what pagination.next of the page before says`,
		"cursor=5_x":              `cursor is "5_x": use what pagination.next of the page before says`,
		"cursor=-5_1":             `cursor is "-5_1": use what pagination.next of the page before says`,
		"queue=%ff":               "queue is not UTF-8",
		"consumerGroup=%00":       "consumerGroup contains a NUL character: remove it",
		"transactionId=%00":       "transactionId is not UTF-8 without NUL",
		"partition=" + long(256):  "partition is 256 bytes long: at most 255 are allowed",
		"cursor=9999999999999999": `cursor is "9999999999999999": use what pagination.next of the page before says`,
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

func TestInvalidRedrivesAreRefused(t *testing.T) {
	t.Parallel()
	const named = `"queue":"q","consumerGroup":"g"`
	for body, want := range map[string]string{
		``:                            "Empty request body",
		`{"consumerGroup":"g"}`:       "queue is required",
		`{"queue":"q"}`:               "consumerGroup is required: what is redriven goes to one group; the reader without one is __QUEUE_MODE__",
		`{` + named + `}`:             "say which: transactionId, partition, from, to, or all: true for every dead letter of the queue and consumerGroup",
		`{` + named + `,"all":false}`: "say which: transactionId, partition, from, to, or all: true for every dead letter of the queue and consumerGroup",
		`{` + named + `,"all":1}`:     "all must be true or false, not 1",
		`{` + named + `,"dryRun":""}`: `dryRun must be true or false, not ""`,
		`{` + named + `,"rate":0}`:    "rate is 0: it must be between 1 and 100000 messages per second",
		`{` + named + `,"rate":1.5}`:  "rate must be a whole number, not 1.5",
		`{` + named + `,"from":5}`:    "from must be an instant as a string, not 5",
		`{` + named + `,"from":""}`:   `from must be an instant as a string, not ""`,
		`{` + named + `,"all":true,"from":"2026-01-02","to":"2026-01-01"}`: "to is before from: exchange them",
		`{` + named + `,"to":"x"}`: `to is "x": it must be an instant such as 2026-05-16T08:41:27.123Z`,
		`{"queue":5}`:              "queue must be a string, not 5",
		`{` + named + `,"all":true,"dryrun":true}`: `"dryrun" is no field of a redrive: use queue, consumerGroup, partition, transactionId, ` +
			`from, to, all, rate and dryRun`,
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
	require.Equal(t, "queue is required: name the queue whose dead letters are to be deleted",
		apitest.RequireError(t, apitest.Call(f, http.MethodDelete, "/api/v1/dlq?consumerGroup=g", ""), http.StatusBadRequest))
}

func TestPurgeRefusesUnknownParameters(t *testing.T) {
	t.Parallel()
	const parameters = "is no parameter of a purge: use queue, consumerGroup, partition, transactionId, from, to and dryRun"
	for query, want := range map[string]string{
		"group=g":                       `"group" ` + parameters,
		"dry_run=true":                  `"dry_run" ` + parameters,
		"dryRun=True":                   `dryRun is "True": it must be true or false`,
		"dryRun=yes":                    `dryRun is "yes": it must be true or false`,
		"from=2026-01-02&to=2026-01-01": "to is before from: exchange them",
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
	f := &apitest.Fakes{} // the first instant there is bounds the purge all the same
	require.Equal(t, http.StatusOK, apitest.Call(f, http.MethodDelete, "/api/v1/dlq?queue=q&to=0001-01-01T00:00:00Z", "").Code)
	require.Equal(t, 1, f.DeadLetters.Filter.To.Year())
	require.False(t, f.DeadLetters.Filter.To.IsZero())
}

func TestMessagesAreDeadLetteredAndRetried(t *testing.T) {
	t.Parallel()
	path := "/api/v1/messages/" + apitest.IDTwo.String() + "/t%2F%25"
	f := &apitest.Fakes{}
	rec := apitest.Call(f, http.MethodPost, path+"/dlq", `{"consumerGroup":"g","error":"why"}`)
	require.Equal(t, `{"success":true,"partitionId":"`+apitest.IDTwo.String()+`","transactionId":"t/%","consumerGroup":"g","dlq":true}`, rec.Body.String())
	want := queue.AckItem{TransactionID: "t/%", PartitionID: apitest.IDTwo.String(), Group: "g", Status: queue.AckDead, Error: "why"}
	require.Equal(t, []queue.Operation{{Ack: &want}}, f.Transactions[0].Operations)
	require.Equal(t, http.StatusOK, apitest.Call(f, http.MethodPost, path+"/dlq", "").Code)
	require.Equal(t, queue.DefaultGroup, f.Transactions[1].Operations[0].Ack.Group)
	require.NotEmpty(t, f.Transactions[1].Operations[0].Ack.Error)

	const advice = "; if a consumer group is to give the message up, name it in consumerGroup"
	for _, c := range []struct{ body, why, want string }{
		{"", "Message not found", "Message not found"},
		{"", "The group has no place", "The group has no place" + advice},
		{`{"consumerGroup":"g"}`, "The group has no place", "The group has no place"},
	} {
		f := &apitest.Fakes{Transact: func(*queue.Transaction) (queue.TransactionResult, error) {
			return queue.TransactionResult{Operations: []queue.OperationResult{{Error: c.why}}}, nil
		}}
		require.Equal(t, c.want, apitest.RequireError(t, apitest.Call(f, http.MethodPost, path+"/dlq", c.body), http.StatusNotFound))
	}

	rec = apitest.Call(f, http.MethodPost, path+"/retry", "")
	require.Equal(t, `{"success":true,"partitionId":"`+apitest.IDTwo.String()+`","transactionId":"t/%","consumerGroup":null,"redriven":1}`, rec.Body.String())
	require.Nil(t, f.DeadLetters.Group)
	s, _ := apitest.Server(f) // a body of unknown length that is empty is none
	chunked := httptest.NewRequest(http.MethodPost, path+"/retry", io.MultiReader())
	require.Equal(t, int64(-1), chunked.ContentLength)
	require.Equal(t, http.StatusOK, apitest.Send(s, chunked).Code)
	require.Equal(t, http.StatusOK, apitest.Call(f, http.MethodPost, path+"/retry", `{"consumerGroup":"g"}`).Code)
	require.Equal(t, "g", *f.DeadLetters.Group)
	f.DeadLetters.Missing = true
	require.Equal(t, "Message not found", apitest.RequireError(t, apitest.Call(f, http.MethodPost, path+"/retry", ""), http.StatusNotFound))
	require.Equal(t, "Message not found", apitest.RequireError(t, apitest.Call(f, http.MethodGet, path, ""), http.StatusNotFound))
	require.Equal(t, "Message not found", apitest.RequireError(t, apitest.Call(f, http.MethodGet, "/api/v1/messages/x/t", ""), http.StatusNotFound))
	require.Contains(t, apitest.Call(f, http.MethodDelete, path, "").Body.String(), `"message":"Message not found"`)
}

func TestTracesAreStoredAndListed(t *testing.T) {
	t.Parallel()
	named := `"transactionId":"t","partitionId":"` + apitest.IDTwo.String() + `"`
	f := &apitest.Fakes{}
	rec := apitest.Call(f, http.MethodPost, "/api/v1/traces", `{`+named+`,"data":{"a":1},"traceNames":["x","x","ü"],"consumerGroup":null}`)
	require.Equal(t, http.StatusCreated, rec.Code, rec.Body)
	require.Equal(t, `{"success":true,"traceId":"`+apitest.IDOne.String()+`"}`, rec.Body.String())
	require.Equal(t, []string{"t", queue.DefaultGroup, "info", "x", "ü"}, f.Traces.Texts)
	for body, want := range map[string]string{
		`{"transactionId":"t","data":1}`:      "transactionId and partitionId are required",
		`{` + named + `}`:                     "data is required",
		`{` + named + `,"data":null}`:         "data is required",
		`{` + named + `,"traceNames":5}`:      "traceNames must be a string or an array of strings, not 5",
		`{` + named + `,"traceNames":[5]}`:    "traceNames must hold strings, not 5",
		`{` + named + `,"eventType":"\u0000"`: "eventType contains a NUL character: remove it",
	} {
		require.Equal(t, want, apitest.RequireError(t, apitest.Call(&apitest.Fakes{}, http.MethodPost, "/api/v1/traces", body), http.StatusBadRequest))
	}
	rec = apitest.Call(f, http.MethodGet, "/api/v1/traces/by-name/%C3%BC%25?limit=1", "")
	require.Contains(t, rec.Body.String(), `"total":9,"pagination":{"limit":1,"offset":0,"next":"1500000_`+apitest.IDOne.String()+`"}`)
	require.Contains(t, f.Traces.Texts, "ü%")
	apitest.Call(f, http.MethodGet, "/api/v1/traces/by-name/x?cursor=1500000_"+apitest.IDOne.String(), "")
	require.Equal(t, apitest.IDOne, f.Traces.After.ID)
	require.Equal(t, http.StatusBadRequest, apitest.Call(f, http.MethodGet, "/api/v1/traces/by-name/x?cursor=1500000_1", "").Code)
	require.JSONEq(t, `{"trace_names":[],"total":0,"pagination":{"limit":50,"offset":0}}`, apitest.Call(f, http.MethodGet, "/api/v1/traces/names", "").Body.String())
	require.JSONEq(t, `{"traces":[]}`, apitest.Call(f, http.MethodGet, "/api/v1/traces/no-uuid/t", "").Body.String())
}
