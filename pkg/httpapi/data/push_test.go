package data_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestParsePushReadsItems(t *testing.T) {
	t.Parallel()
	const trace = "0190f5fe-1c2b-7abc-8def-0123456789ab"
	traced, err := queue.ParseID(trace)
	require.NoError(t, err)
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for body, want := range map[string][]queue.PushItem{
		`{"items":[]}`: nil,
		`{"items":[{"queue":"q"}]}`: {
			{Queue: "q", Partition: "Default", Payload: raw("null")},
		},
		`{"items":[{"queue":"","partition":"","payload":0}]}`: {{Payload: raw("0")}},
		`{"other":[1],"items":[{"queue":"q","partition":"p","transactionId":"t","traceId":"` + trace + `","payload":{"b":1,"a":2}}]}`: {
			{Queue: "q", Partition: "p", TransactionID: "t", TraceID: traced, Payload: raw(`{"b":1,"a":2}`)},
		},
		`{"items":[{"queue":"q","traceId":"","transactionId":"","payload":"x"},{"queue":"r","payload":[1, 2]}]}`: {
			{Queue: "q", Partition: "Default", Payload: raw(`"x"`)},
			{Queue: "r", Partition: "Default", Payload: raw("[1, 2]")},
		},
		// Unknown members are ignored.
		`{"items":[{"queue":"q","producerSub":"me","namespace":7,"task":[],"visibleat":"2030-01-01"}]}`: {
			{Queue: "q", Partition: "Default", Payload: raw("null")},
		},
		// If a name occurs twice, the last value counts.
		`{"items":5,"items":[{"queue":"a","queue":"b","payload":1,"payload":2}]}`: {
			{Queue: "b", Partition: "Default", Payload: raw("2")},
		},
		`{"items":[{"queue":"a"}],"items":[]}`: nil,
		`{"items":[{"queue":"q","traceId":"` + trace + `","traceId":""}]}`: {
			{Queue: "q", Partition: "Default", Payload: raw("null")},
		},
	} {
		items, err := data.ParsePush([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, items, body)
	}
}

func TestParsePushNamesTheInvalidField(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                                                       "items array is required",
		`{"items":{}}`:                                             "items array is required",
		`{"items":null}`:                                           "items array is required",
		`{"Items":[]}`:                                             "items array is required",
		`{"items":[],"items":1}`:                                   "items array is required",
		`{"items":[1]}`:                                            "items[0] must be an object",
		`{"items":[{"queue":"q"},null]}`:                           "items[1] must be an object",
		`{"items":[{}]}`:                                           "items[0].queue is missing",
		`{"items":[{"queue":7}]}`:                                  "items[0].queue must be a string",
		`{"items":[{"queue":null}]}`:                               "items[0].queue must be a string",
		`{"items":[{"queue":"q"},{"p":1}]`:                         "items[1].queue is missing",
		`{"items":[{"queue":"q"},{"queu":"q"}]}`:                   `items[1].queue is missing; did you mean "queue" for "queu"?`,
		`{"items":[{"queue":"q","partition":null}]}`:               "items[0].partition must be a string",
		`{"items":[{"queue":"q","transactionId":null}]}`:           "items[0].transactionId must be a string",
		`{"items":[{"queue":"q","transactionId":5}]}`:              "items[0].transactionId must be a string",
		`{"items":[{"queue":"q","traceId":{}}]}`:                   "items[0].traceId must be a string",
		`{"items":[{"queue":"q"},{"queue":"q","traceId":"x"}]}`:    `items[1].traceId: "x" is not a UUID`,
		`{"items":[{"queue":"` + strings.Repeat("x", 256) + `"}]}`: "items[0].queue is 256 bytes long",
		`{"items":[{"queue":"q","partition":"` + strings.Repeat("ü", 128) + `"}]}`: "items[0].partition is 256 bytes long",
		`{"items":[{"queue":"q","partition":"a\u0000"}]}`:                          "items[0].partition contains a NUL character",
		`{"items":[{"queue":"a\u0000"}]}`:                                          "items[0].queue contains a NUL character",
		`{"items":[{"queue":"q","transactionId":"a\u0000"}]}`:                      "items[0].transactionId contains a NUL character",
		`{"items":[{"queue":"q","transactionId":"` + strings.Repeat("ü", 256) + `"}]}`: "items[0].transactionId is 256 characters long: " +
			"at most 255 are allowed",
	} {
		items, err := data.ParsePush([]byte(body))
		apitest.RequireInvalid(t, err)
		require.ErrorContains(t, err, want, body)
		require.Nil(t, items)
	}
	longest := strings.Repeat("ü", 255)
	items, err := data.ParsePush([]byte(`{"items":[{"queue":"q","transactionId":"` + longest + `"}]}`))
	require.NoError(t, err)
	require.Equal(t, longest, items[0].TransactionID)
}

// If an unknown member resembles a known member, the answer has a warning. For other unknown members it has none. With the
// parameter strict, every unknown member is an error.
func TestAMisspelledMemberIsReported(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Push: func(items []queue.PushItem) ([]queue.PushResult, error) {
		return make([]queue.PushResult, len(items)), nil
	}}
	for member, near := range map[string]string{
		"delay": "delaySeconds", "transaction_id": "transactionId", "Payload": "payload", "data": "payload", "partitions": "partition",
		"visibleat": "visibleAt", "trace": "traceId", "namespace": "", "task": "", "producerSub": "", "id": "",
	} {
		body := `{"items":[{"queue":"q"},{"queue":"q","` + member + `":1}]}`
		rec := apitest.Call(f, "POST", "/api/v1/push", body)
		require.Equal(t, http.StatusCreated, rec.Code, member)
		var answers []struct{ Warnings []string }
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &answers))
		require.Empty(t, answers[0].Warnings, member)
		if near == "" {
			require.NotContains(t, rec.Body.String(), "warnings", member)
		} else {
			require.Equal(t, []string{"items[1]." + member + " is unknown and was ignored; did you mean " + near + "?"}, answers[1].Warnings)
		}
		rec = apitest.Call(f, "POST", "/api/v1/push?strict=true", body)
		require.Equal(t, http.StatusBadRequest, rec.Code, member)
		require.Contains(t, rec.Body.String(), "items[1]."+member+" is unknown")
	}
	require.Equal(t, http.StatusCreated, apitest.Call(f, "POST", "/api/v1/push?strict=true", `{"items":[{"queue":"q","payload":1}]}`).Code)
}

func TestPayloadKeepsItsBytes(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`{ "b" : 1.50e+00,` + "\n\t" + `"a":[ ], "a":12345678901234567890123 }`, `"\u00fc\/\ud800 \u0000"`, `-0`, `1E400`,
		`{"items":[{"queue":"x"}]}`, `[[[[]]]]`, "\"\u2028<>&\"", `""`, `false`, `"` + strings.Repeat("x", 1<<20) + `"`,
	} {
		body := []byte(`{"items":[{"queue":"q","payload": ` + payload + ` }]}`)
		items, err := data.ParsePush(body)
		require.NoError(t, err)
		require.Equal(t, payload, string(items[0].Payload))
		// The payload must not share memory with the body.
		clear(body)
		require.Equal(t, payload, string(items[0].Payload))
	}
}

func TestEachPushedItemHasItsAnswer(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Push: func([]queue.PushItem) ([]queue.PushResult, error) {
		return []queue.PushResult{
			{MessageID: apitest.IDOne, PartitionID: apitest.IDTwo, TransactionID: "made \"up\""},
			{MessageID: apitest.IDThree, PartitionID: apitest.IDTwo, TransactionID: "t", Duplicate: true},
		}, nil
	}}
	rec := apitest.Call(f, "POST", "/api/v1/push", `{"items":[{"queue":"ä","traceId":"`+apitest.IDThree.String()+`"},{"queue":"r","transactionId":"t"}]}`)
	require.Equal(t, http.StatusCreated, rec.Code)
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
	require.JSONEq(t, `[
		{"index":0,"status":"queued","transaction_id":"made \"up\"","message_id":"`+apitest.IDOne.String()+`",
		 "partition_id":"`+apitest.IDTwo.String()+`","trace_id":"`+apitest.IDThree.String()+`","queueName":"ä"},
		{"index":1,"status":"duplicate","transaction_id":"t","message_id":"`+apitest.IDThree.String()+`","queueName":"r"}
	]`, rec.Body.String())

	rec = apitest.Call(&apitest.Fakes{}, "POST", "/api/v1/push", `{"items":[{"queue":"q"}]}`)
	require.Contains(t, rec.Body.String(), `"trace_id":null`)
}

func TestEmptyPushStoresNothing(t *testing.T) {
	t.Parallel()
	f := apitest.Failing(errors.New("the store must not be called"))
	rec := apitest.Call(f, "POST", "/api/v1/push", `{"items":[]}`)
	require.Equal(t, http.StatusCreated, rec.Code)
	require.Equal(t, "[]", rec.Body.String())
	require.False(t, f.Reached())
}

func TestOneInvalidItemRefusesThePush(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	rec := apitest.Call(f, "POST", "/api/v1/push", `{"items":[{"queue":"q"},{"queue":"q"},{"queue":7}]}`)
	apitest.RequireError(t, rec, http.StatusBadRequest)
	require.False(t, f.Reached())

	var body bytes.Buffer
	body.WriteString(`{"items":[`)
	for range 999 {
		body.WriteString(`{"queue":"q"},`)
	}
	body.WriteString(`{"queue":"q"}]}trailing`)
	apitest.RequireError(t, apitest.Call(f, "POST", "/api/v1/push", body.String()), http.StatusBadRequest)
	require.False(t, f.Reached(), "a push with text after the object must not reach the store")
}
