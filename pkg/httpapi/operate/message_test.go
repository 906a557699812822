package operate_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

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

	const advice = "; to make it a dead letter of a consumer group, send the group as consumerGroup"
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
	s, _ := apitest.Server(f) // an empty body of unknown length counts as no body
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
	require.JSONEq(t, `{"traces":[],"pagination":{"limit":1000,"offset":0,"next":null}}`, apitest.Call(f, http.MethodGet, "/api/v1/traces/no-uuid/t", "").Body.String())
}
