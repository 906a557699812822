package data_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

func TestParseAckBatchReadsAcks(t *testing.T) {
	t.Parallel()
	item := func(edit ...func(*queue.AckItem)) queue.AckItem {
		it := queue.AckItem{TransactionID: "t", PartitionID: "p", Group: queue.DefaultGroup, Status: queue.AckCompleted}
		for _, e := range edit {
			e(&it)
		}
		return it
	}
	status := func(s queue.AckStatus) func(*queue.AckItem) { return func(i *queue.AckItem) { i.Status = s } }
	group := func(g string) func(*queue.AckItem) { return func(i *queue.AckItem) { i.Group = g } }
	with := func(members string) string {
		return `{"acknowledgments":[{"transactionId":"t","partitionId":"p"` + members + `}]}`
	}
	for body, want := range map[string][]queue.AckItem{
		`{"acknowledgments":[]}`:     nil,
		with(""):                     {item()},
		with(`,"status":"success"`):  {item()},
		with(`,"status":"failed"`):   {item(status(queue.AckFailed))},
		with(`,"status":"dlq"`):      {item(status(queue.AckDead))},
		with(`,"status":"retry"`):    {item(status(queue.AckRetry))},
		with(`,"status":"what"`):     {item(status(queue.AckUnknown))},
		with(`,"status":""`):         {item(status(queue.AckUnknown))},
		with(`,"status":null`):       {item()},
		with(`,"status":7`):          {item()},
		with(`,"leaseId":null`):      {item()},
		with(`,"leaseId":7`):         {item()},
		with(`,"error":null`):        {item()},
		with(`,"unknown":[{}]`):      {item()},
		with(`,"consumerGroup":"g"`): {item()}, // only the group of the call counts
		with(`,"leaseId":"L","error":"boom"`): {item(func(i *queue.AckItem) {
			i.LeaseID, i.Error = "L", "boom"
		})},
		`{"consumerGroup":"g","acknowledgments":[{"partitionId":"p","transactionId":"t"}]}`:  {item(group("g"))},
		`{"acknowledgments":[{"transactionId":"t","partitionId":"p"}],"consumerGroup":"g"}`:  {item(group("g"))},
		`{"acknowledgments":[{"transactionId":"t","partitionId":"p"}],"consumerGroup":null}`: {item()},
		`{"acknowledgments":[{"transactionId":"t","partitionId":"p"}],"consumerGroup":""}`:   {item()},
		`{"acknowledgments":[{"transactionId":"t","partitionId":"p"}],"consumerGroup":3}`:    {item()},
		`{"acknowledgments":[{"transactionId":"","partitionId":""}]}`: {
			item(func(i *queue.AckItem) { i.TransactionID, i.PartitionID = "", "" }),
		},
		`{"acknowledgments":7,"acknowledgments":[{"transactionId":"t","partitionId":"p"}]}`: {item()},
	} {
		items, err := data.ParseAckBatch([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, items, body)
	}
}

func TestParseAckBatchNamesTheInvalidField(t *testing.T) {
	t.Parallel()
	const (
		noArray       = "acknowledgments array is required"
		noTransaction = "Each acknowledgment must have a valid transactionId string"
		noPartition   = "Each acknowledgment must have a valid partitionId string to ensure message uniqueness"
	)
	for body, want := range map[string]string{
		`{}`:                            noArray,
		`{"acknowledgments":null}`:      noArray,
		`{"acknowledgments":{}}`:        noArray,
		`{"acknowledgments":"t"}`:       noArray,
		`{"acknowledgments":[{}]}`:      noTransaction,
		`{"acknowledgments":[7]}`:       noTransaction,
		`{"acknowledgments":[null]}`:    noTransaction,
		`{"acknowledgments":[["t"]]}`:   noTransaction,
		`{"acknowledgments":[],"x":tr}`: "Invalid JSON",
		`{"acknowledgments":[{"transactionId":7,"partitionId":"p"}]}`:                        noTransaction,
		`{"acknowledgments":[{"transactionId":"t"}]}`:                                        noPartition,
		`{"acknowledgments":[{"transactionId":"t","partitionId":null}]}`:                     noPartition,
		`{"acknowledgments":[{"transactionId":"t","partitionId":"p"},{"transactionId":"t"}]`: noPartition,
		`{"acknowledgments":[{"transactionId":"t","transactionId":7,"partitionId":"p"}]}`:    noTransaction,
	} {
		items, err := data.ParseAckBatch([]byte(body))
		apitest.RequireInvalid(t, err)
		require.ErrorContains(t, err, want, body)
		require.Nil(t, items)
	}
}

func TestSingleAcksHaveTheRulesOfBatches(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`:                    "transactionId is required",
		`{"partitionId":"p"}`:   "transactionId is required",
		`{"transactionId":"t"}`: "partitionId is required to ensure message uniqueness",
	} {
		f := &apitest.Fakes{}
		require.Equal(t, want, apitest.RequireError(t, apitest.Call(f, "POST", "/api/v1/ack", body), 400))
		require.False(t, f.Reached())
	}
	f := &apitest.Fakes{}
	rec := apitest.Call(f, "POST", "/api/v1/ack", `{"transactionId":"t","partitionId":"p","consumerGroup":"g","status":"failed","leaseId":"L","error":"boom"}`)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, [][]queue.AckItem{{{
		TransactionID: "t", PartitionID: "p", Group: "g", Status: queue.AckFailed, LeaseID: "L", Error: "boom", Consumer: "192.0.2.1",
	}}}, f.Acked)
	require.Equal(t, byte('['), rec.Body.Bytes()[0], "the answer is an array")

	apitest.Call(f, "POST", "/api/v1/ack", `{"transactionId":"t","partitionId":"p"}`)
	require.Equal(t, queue.DefaultGroup, f.Acked[1][0].Group)
	require.Equal(t, queue.AckCompleted, f.Acked[1][0].Status)
}

func TestEachAckHasItsAnswer(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Ack: func([]queue.AckItem) ([]queue.AckResult, error) {
		return []queue.AckResult{
			{Success: true, Queue: "q", Partition: "Default", Resolved: true, LeaseReleased: true, DeadLettered: true},
			{Success: true, Queue: "q", Partition: "", Resolved: true},
			{Error: "Message not found"},
			{Error: "Invalid or expired lease", Queue: "q", Partition: "p"},
			{},
		}, nil
	}}
	const one = `{"transactionId":"t","partitionId":"p"}`
	rec := apitest.Call(f, "POST", "/api/v1/ack/batch", `{"acknowledgments":[`+one+`,`+one+`,`+one+`,`+one+`,`+one+`]}`)
	require.Equal(t, http.StatusOK, rec.Code)
	require.JSONEq(t, `[
		{"index":0,"transactionId":"t","success":true,"error":null,"queueName":"q","partitionName":"Default","leaseReleased":true,"dlq":true},
		{"index":1,"transactionId":"t","success":true,"error":null,"queueName":"q","partitionName":"","leaseReleased":false,"dlq":false},
		{"index":2,"transactionId":"t","success":false,"error":"Message not found","queueName":null,"partitionName":null,"leaseReleased":null,"dlq":false},
		{"index":3,"transactionId":"t","success":false,"error":"Invalid or expired lease","queueName":"q","partitionName":"p","leaseReleased":null,"dlq":false},
		{"index":4,"transactionId":"t","success":false,"error":null,"queueName":null,"partitionName":null,"leaseReleased":null,"dlq":false}
	]`, rec.Body.String())

	require.Equal(t, "[]", apitest.Call(&apitest.Fakes{}, "POST", "/api/v1/ack/batch", `{"acknowledgments":[]}`).Body.String())
}

func TestNULInAnAckIsReplaced(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{}
	rec := apitest.Call(f, "POST", "/api/v1/ack", `{"transactionId":"a\u0000","partitionId":"p","consumerGroup":"\u0000","error":"x\u0000y"}`)
	require.Equal(t, http.StatusOK, rec.Code)
	for _, text := range []string{f.Acked[0][0].TransactionID, f.Acked[0][0].Group, f.Acked[0][0].Error} {
		require.NotContains(t, text, "\x00", "Postgres cannot store a NUL")
	}
}

func TestFailedAckCallIsAnError(t *testing.T) {
	t.Parallel()
	f := &apitest.Fakes{Ack: func([]queue.AckItem) ([]queue.AckResult, error) { return nil, errors.New("broken") }}
	apitest.RequireError(t, apitest.Call(f, "POST", "/api/v1/ack", `{"transactionId":"t","partitionId":"p"}`), 500)
}
