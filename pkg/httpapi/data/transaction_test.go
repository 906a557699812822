package data_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

const (
	transactionPath = "/api/v1/transaction"
	oneTransaction  = `{"operations":[{"type":"push","items":[{"queue":"q","payload":{"a":1},"transactionId":"t"}]},` +
		`{"type":"ack","transactionId":"t","partitionId":"p","status":"completed"}],"requiredLeases":["l"]}`
)

func operations(list string) string { return `{"operations":[` + list + `]}` }

func TestParseTransactionReadsOperations(t *testing.T) {
	t.Parallel()
	push := func(item queue.PushItem) queue.Operation {
		if item.Partition == "" {
			item.Partition = "Default"
		}
		if item.Payload == nil {
			item.Payload = json.RawMessage("null")
		}
		return queue.Operation{Push: &item}
	}
	ack := func(item queue.AckItem) queue.Operation {
		item.TransactionID, item.PartitionID = "t", "p"
		if item.Group == "" {
			item.Group = queue.DefaultGroup
		}
		if item.Status == 0 {
			item.Status = queue.AckCompleted
		}
		return queue.Operation{Ack: &item}
	}
	const acked = `{"type":"ack","transactionId":"t","partitionId":"p"`
	for body, want := range map[string]queue.Transaction{
		oneTransaction: {Operations: []queue.Operation{
			push(queue.PushItem{Queue: "q", TransactionID: "t", Payload: json.RawMessage(`{"a":1}`)}), ack(queue.AckItem{}),
		}, RequiredLeases: []string{"l"}},
		operations(`{"queue":"q","data":1,"type":"push"}`):             {Operations: []queue.Operation{push(queue.PushItem{Queue: "q", Payload: json.RawMessage("1")})}},
		operations(`{"type":"push","queue":"q","data":1,"payload":2}`): {Operations: []queue.Operation{push(queue.PushItem{Queue: "q", Payload: json.RawMessage("2")})}},
		operations(`{"type":"push","queue":"q","payload":2,"data":1}`): {Operations: []queue.Operation{push(queue.PushItem{Queue: "q", Payload: json.RawMessage("2")})}},
		operations(`{"type":"push","items":[{"queue":"q","partition":"p"},{"queue":""}]},{"type":"push","items":null,"queue":"r"}`): {
			Operations: []queue.Operation{push(queue.PushItem{Queue: "q", Partition: "p"}), push(queue.PushItem{}), push(queue.PushItem{Queue: "r"})},
		},
		operations(`{"type":"push","queue":"q","partition":null,"transactionId":null,"traceId":null,"payload":null}`): {
			Operations: []queue.Operation{push(queue.PushItem{Queue: "q"})},
		},
		operations(`{"type":"push","items":[]}`):                                               {},
		operations(acked + `,"status":null,"consumerGroup":null,"leaseId":null,"error":null}`): {Operations: []queue.Operation{ack(queue.AckItem{})}},
		operations(acked + `,"consumerGroup":""}`):                                             {Operations: []queue.Operation{ack(queue.AckItem{})}},
		operations(acked + `,"status":"failed","consumerGroup":"g","leaseId":"L","error":"boom"}`): {Operations: []queue.Operation{
			ack(queue.AckItem{Status: queue.AckFailed, Group: "g", LeaseID: "L", Error: "boom"}),
		}},
		`{"requiredLeases":["",null,"x"],"operations":[{"type":"push","items":[]}]}`:       {RequiredLeases: []string{"", "", "x"}},
		`{"requiredLeases":null,"operations":7,"operations":[{"type":"push","items":[]}]}`: {},
	} {
		tx, unknown, err := data.ParseTransaction([]byte(body))
		require.NoError(t, err, body)
		require.Nil(t, unknown)
		require.Equal(t, want, tx, body)
	}
	tx, _, err := data.ParseTransaction([]byte(operations(acked + `,"status":"done"}`)))
	require.NoError(t, err)
	require.Equal(t, queue.AckUnknown, tx.Operations[0].Ack.Status, "the store refuses an unknown status")
}

func TestParseTransactionNamesTheInvalidField(t *testing.T) {
	t.Parallel()
	const acked = `{"type":"ack","transactionId":"t","partitionId":"p"`
	long := strings.Repeat("x", 256)
	for body, want := range map[string]string{
		`{}`:                                     "operations array required",
		`{"operations":null}`:                    "operations array required",
		`{"operations":{}}`:                      "operations array required",
		`{"operations":[]}`:                      "operations array cannot be empty",
		operations(`7`):                          "operations[0] must be an object",
		operations(`{}`):                         "operations[0].type must be a string, push or ack",
		operations(`{"type":null}`):              "operations[0].type must be a string, push or ack",
		operations(acked + `},{"type":"push"}`):  "operations[1].items must be an array",
		operations(`{"type":"push","items":{}}`): "operations[0].items must be an array",
		operations(`{"type":"push","items":[{"queue":"q"},7]}`):                                                   "operations[0].items[1] must be an object",
		operations(acked + `},{"type":"push","items":[{"queue":null}]}`):                                          "operations[1].items[0].queue must be a string",
		operations(`{"type":"push","items":[{"queue":"q","partition":1}]}`):                                       "operations[0].items[0].partition must be a string",
		operations(`{"type":"push","items":[{"queue":"q","transactionId":1}]}`):                                   "operations[0].items[0].transactionId must be a string",
		operations(`{"type":"push","items":[{"queue":"q","traceId":1}]}`):                                         "operations[0].items[0].traceId must be a string",
		operations(`{"type":"push","items":[{"queue":"q","traceId":"x"}]}`):                                       `operations[0].items[0].traceId: "x" is not a UUID`,
		operations(`{"type":"push","queue":"` + long + `"}`):                                                      "operations[0].queue is 256 bytes long: at most 255 are allowed",
		operations(`{"type":"push","items":[{"queue":"q","transactionId":"\u0000"}]}`):                            "operations[0].items[0].transactionId contains a NUL character: remove it",
		operations(`{"type":"ack","partitionId":"p"}`):                                                            "operations[0].transactionId must be a string",
		operations(`{"type":"ack","transactionId":"t","partitionId":null}`):                                       "operations[0].partitionId must be a string: transaction ids are unique within a partition only",
		operations(acked + `,"status":1}`):                                                                        "operations[0].status must be a string",
		operations(acked + `,"leaseId":1}`):                                                                       "operations[0].leaseId must be a string",
		operations(acked + `,"consumerGroup":[]}`):                                                                "operations[0].consumerGroup must be a string",
		operations(acked + `,"error":{}}`):                                                                        "operations[0].error must be a string",
		`{"operations":[` + acked + `}],"requiredLeases":"l"}`:                                                    "requiredLeases must be an array of the leaseIds of pops",
		`{"operations":[` + acked + `}],"requiredLeases":["l",7]}`:                                                "requiredLeases[1] must be a string, the leaseId of a pop",
		operations(`{"type":"merge"},{"type":"push","queue":null}`):                                               "operations[1].queue must be a string",
		`{"operations":[` + acked + `}],"requiredLeases":[` + strings.Repeat(`"",`, queue.MaxOperations) + `""]}`: "requiredLeases has more than 100000 leases: send each lease only once",
	} {
		_, _, err := data.ParseTransaction([]byte(body))
		apitest.RequireInvalid(t, err)
		require.EqualError(t, err, want, "%.200s", body)
		f := &apitest.Fakes{}
		require.Equal(t, want, apitest.RequireError(t, apitest.Call(f, "POST", transactionPath, body), http.StatusBadRequest))
		require.False(t, f.Reached(), "a refused request must not reach the store")
	}
	most := strings.Repeat(acked+"},", queue.MaxOperations-1) + acked + "}"
	_, _, err := data.ParseTransaction([]byte(operations(most)))
	require.NoError(t, err)
	_, _, err = data.ParseTransaction([]byte(operations(most + "," + acked + "}")))
	require.EqualError(t, err, "operations has more than 100000 operations (each pushed item counts as an operation): send several transactions")
}

// tx sends a body, requires a 200 and returns the answer without its transactionId.
func tx(t *testing.T, f *apitest.Fakes, body string) map[string]any {
	t.Helper()
	rec := apitest.Call(f, "POST", transactionPath, body)
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
	var got map[string]any
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &got))
	id, _ := got["transactionId"].(string)
	_, err := queue.ParseID(id)
	require.NoError(t, err)
	delete(got, "transactionId")
	return got
}

func requireTransaction(t *testing.T, want string, got map[string]any) {
	t.Helper()
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, want, string(raw))
}

func TestTransactionAnswerHasTheShapeOfQueenMQ(t *testing.T) {
	t.Parallel()
	requireTransaction(t, `{"success":true,"results":[
		{"index":0,"type":"push","success":true,"transactionId":"t","messageId":"`+apitest.IDOne.String()+`","partitionId":"`+apitest.IDTwo.String()+`","queueName":"q"},
		{"index":1,"type":"ack","success":true,"transactionId":"t","error":null,"dlq":false}]}`, tx(t, &apitest.Fakes{}, oneTransaction))

	refused := &apitest.Fakes{Transact: func(*queue.Transaction) (queue.TransactionResult, error) {
		return queue.TransactionResult{Error: "ACK operation failed: Message not found", Operations: []queue.OperationResult{
			{Push: &queue.PushResult{TransactionID: "made up", MessageID: apitest.IDOne, PartitionID: apitest.IDTwo}},
			{Ack: &queue.AckResult{Success: true, DeadLettered: true}, Error: "Message not found"},
		}}, nil
	}}
	requireTransaction(t, `{"success":false,"error":"ACK operation failed: Message not found","results":[
		{"index":0,"type":"push","success":false,"transactionId":"t","error":"Not applied: another part of the transaction failed"},
		{"index":1,"type":"ack","success":false,"transactionId":"t","error":"Message not found","dlq":false}]}`, tx(t, refused, oneTransaction))
}

func TestUnknownOperationTypeIsNotApplied(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	requireTransaction(t, `{"success":false,"error":"Unknown operation type: merge","results":[]}`,
		tx(t, f, operations(`{"type":"push","queue":"q"},{"type":"merge"},{"type":"split"}`)))
	require.False(t, f.Reached())
}

func TestFailedTransactionIsAnError(t *testing.T) {
	t.Parallel()
	for status, err := range map[int]error{
		http.StatusServiceUnavailable:  &queue.Error{Code: queue.CodeUnavailable, Message: "away"},
		http.StatusInternalServerError: errors.New("broken"),
	} {
		f := &apitest.Fakes{Transact: func(*queue.Transaction) (queue.TransactionResult, error) { return queue.TransactionResult{}, err }}
		apitest.RequireError(t, apitest.Call(f, "POST", transactionPath, oneTransaction), status)
	}
}

func TestOnlyAppliedTransactionsAreCounted(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	s, _ := apitest.Server(f)
	apitest.SendOK(t, s, apitest.Request("POST", transactionPath, oneTransaction))
	f.Transact = func(tx *queue.Transaction) (queue.TransactionResult, error) {
		return queue.TransactionResult{Error: "no", Operations: make([]queue.OperationResult, len(tx.Operations))}, nil
	}
	apitest.SendOK(t, s, apitest.Request("POST", transactionPath, oneTransaction))
	text := apitest.Send(s, httptest.NewRequest("GET", "/metrics/prometheus", http.NoBody)).Body.String()
	require.Contains(t, text, "\nbelfry_push_messages_total 1\n")
	require.Contains(t, text, `belfry_ack_messages_total{result="success"} 1`)
	require.Contains(t, text, `belfry_ack_messages_total{result="refused"} 0`)
}

// An item of a transaction or a cycle with a misspelled member gets the same warnings as in a push. With the parameter strict it
// is an error. An answer without warnings has no member warnings.
func TestAMisspelledMemberIsReportedInATransactionAndACycle(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Transact: func(tx *queue.Transaction) (queue.TransactionResult, error) {
		result := queue.TransactionResult{Applied: true}
		for _, operation := range tx.Operations {
			if operation.Push != nil {
				result.Operations = append(result.Operations, queue.OperationResult{Push: &queue.PushResult{}})
			} else {
				result.Operations = append(result.Operations, queue.OperationResult{Ack: &queue.AckResult{}})
			}
		}
		return result, nil
	}}
	const cyclePath, first = "/streams/v1/cycle", `{"type":"ack","transactionId":"t","partitionId":"p"},{"type":"push","items":[]},`
	cycle := func(items string) string {
		return `{"query_id":"0198f9a0-6f1c-7b52-8f6b-2f6c3a1d4e5f","partition_id":"5f0c3f0e-63f5-4d2c-8a0b-6a3c6d5a1b11","push_items":[` + items + `]}`
	}
	type answer struct{ Warnings []string }
	for _, is := range []struct {
		path, body, member, near string
		at                       int // the index of the item in the answer
	}{
		{transactionPath, operations(first + `{"type":"push","items":[{"queue":"q","data":1},{"queue":"q","delay":1}]}`), "operations[2].items[1].delay", "delaySeconds", 2},
		{transactionPath, operations(first + `{"type":"push","items":null,"queue":"q","transaction_id":"t"}`), "operations[2].transaction_id", "transactionId", 1},
		{transactionPath, operations(first + `{"type":"push","items":[{"queue":"q","type":"push"}]}`), "operations[2].items[0].type", "", 1},
		{transactionPath, `{"operations":[{"type":"push","queue":"q","delay":1}],` + operations(`{"type":"push","queue":"q","task":"x"}`)[1:], "operations[0].delay", "", 0},
		{cyclePath, cycle(`{"queue":"q"},{"queue":"q","Payload":1}`), "push_items[1].Payload", "payload", 1},
		{cyclePath, cycle(`{"queue":"q","id":1}`), "push_items[0].id", "", 0},
	} {
		rec := apitest.Call(f, "POST", is.path, is.body)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		if is.near == "" {
			require.NotContains(t, rec.Body.String(), "warnings", is.body)
		} else {
			var got struct {
				Results []answer `json:"results"`
				Pushed  []answer `json:"push_results"`
			}
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &got))
			for at, one := range append(got.Results, got.Pushed...) {
				want := answer{}
				if at == is.at {
					want.Warnings = []string{is.member + " is unknown and was ignored; did you mean " + is.near + "?"}
				}
				require.Equal(t, want, one, "%s, element %d", is.body, at)
			}
		}
		rec = apitest.Call(f, "POST", is.path+"?strict=true", is.body)
		require.Equal(t, http.StatusBadRequest, rec.Code, is.body)
		require.Contains(t, rec.Body.String(), is.member+" is unknown, and the parameter strict is set")
	}
	for path, body := range map[string]string{transactionPath: oneTransaction, cyclePath: cycle(`{"queue":"q","data":1,"traceId":null}`)} {
		rec := apitest.Call(f, "POST", path+"?strict=true", body)
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		require.NotContains(t, rec.Body.String(), "warnings")
	}
	rec := apitest.Call(f, "POST", transactionPath+"?strict=true", operations(`{"type":"push","queue":"q","payload":1}`))
	require.Equal(t, http.StatusOK, rec.Code, "type is a known member of an operation")
	for want, body := range map[string]string{
		`operations[0].queue is missing; did you mean \"queue\" for \"queu\"?`:           operations(`{"type":"push","queu":"q","payload":1}`),
		`operations[1].items[0].queue is missing; did you mean \"queue\" for \"Queue\"?`: operations(`{"type":"push","items":[]},{"type":"push","items":[{"Queue":"q"}]}`),
	} {
		rec := apitest.Call(f, "POST", transactionPath, body)
		require.Equal(t, http.StatusBadRequest, rec.Code, body)
		require.Contains(t, rec.Body.String(), want)
	}
}
