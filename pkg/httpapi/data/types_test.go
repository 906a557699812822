package data_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-mq/belfry/pkg/client/api"
	"github.com/belfry-mq/belfry/pkg/httpapi/data"
	"github.com/belfry-mq/belfry/pkg/queue"
	"github.com/belfry-mq/belfry/test/apitest"
)

// The answers to push, pop, ack and transaction are encoded without reflection, because that is faster. They must have the
// members of their types.
func TestAnswersHaveTheMembersOfTheirTypes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 16, 8, 41, 27, 123_000_000, time.UTC)
	partition := &queue.Partition{ID: apitest.IDOne, Name: "customer-7"}
	first := queue.Message{
		Partition: partition, ID: apitest.IDTwo, TransactionID: "t <1>", TraceID: apitest.IDOne, Payload: json.RawMessage(`{"b":[],"a":1.50}`),
		ProducerSub: "shop", CreatedAt: at, Attempt: 1,
	}
	second := queue.Message{Partition: partition, ID: apitest.IDOne, TransactionID: "u", Payload: json.RawMessage(`null`), CreatedAt: at}
	f := &apitest.Fakes{
		Push: func(items []queue.PushItem) ([]queue.PushResult, error) {
			return []queue.PushResult{
				{TransactionID: "t", MessageID: apitest.IDOne, PartitionID: apitest.IDTwo},
				{TransactionID: "u", MessageID: apitest.IDOne, Duplicate: true},
				{TransactionID: "v", Buffered: true},
			}[:len(items)], nil
		},
		Ack: func([]queue.AckItem) ([]queue.AckResult, error) {
			return []queue.AckResult{
				{Success: true, Resolved: true, Queue: "orders", Partition: "customer-7", LeaseReleased: true, DeadLettered: true}, {Error: "Message not found"},
			}, nil
		},
		Pop: func(context.Context, *queue.PopRequest) (queue.Delivery, error) {
			return queue.Delivery{Queue: "orders", Group: "g", LeaseID: apitest.IDThree, Partitions: 1, Messages: []queue.Message{first, second}}, nil
		},
	}
	call := func(method, target, body string) []byte {
		t.Helper()
		answer := apitest.Call(f, method, target, body)
		require.Less(t, answer.Code, 300, answer.Body)
		return answer.Body.Bytes()
	}
	items := `{"items":[{"queue":"orders","traceId":"` + apitest.IDOne.String() + `","delay":1}`
	apitest.RequireType[[]api.PushResult](t, call("POST", "/api/v1/push", items+"]}"))
	answer := call("POST", "/api/v1/push", items+`,{"queue":"orders"},{"queue":"orders"}]}`)
	apitest.RequireType[[]api.PushResult](t, answer, "transactionId", "queue", "partition")
	apitest.RequireType[api.Delivery[json.RawMessage]](t, call("GET", "/api/v1/pop/queue/orders", ""))
	acks := `{"acknowledgments":[{"transactionId":"t","partitionId":"p"},{"transactionId":"u","partitionId":"p"}]}`
	apitest.RequireType[[]api.AckResult](t, call("POST", "/api/v1/ack/batch", acks))

	operations := `{"operations":[{"type":"push","items":[{"queue":"orders","delay":1}]},{"type":"ack","transactionId":"t","partitionId":"p"}]}`
	apitest.RequireType[api.TransactionResult](t, call("POST", "/api/v1/transaction", operations))
	f.Transact = func(*queue.Transaction) (queue.TransactionResult, error) {
		return queue.TransactionResult{Error: "no", Operations: []queue.OperationResult{{}, {Error: "no"}}}, nil
	}
	apitest.RequireType[api.TransactionResult](t, call("POST", "/api/v1/transaction", operations))
	apitest.RequireType[api.Error](t, apitest.Call(f, http.MethodPost, "/api/v1/push", "{}").Body.Bytes())
}

// outcome is the result of a parser.
type outcome struct {
	value any
	err   error
}

// The parser of a request reads exactly the members of its type.
func TestParsersReadTheMembersOfTheTypes(t *testing.T) {
	t.Parallel()
	ack := api.Ack{
		TransactionID: "t", PartitionID: "p", LeaseID: "l", Status: api.Failed, Error: "no", RetryAfterSeconds: 1.5, Group: "g",
	}
	item := api.PushItem{Queue: "q", Partition: "p", TransactionID: "t", TraceID: apitest.IDOne.String(), Headers: map[string]string{"tenant": "acme"}, Tenant: "acme", Payload: 1}
	delayed, later := item, item
	delayed.DelaySeconds, later.VisibleAt = 1.5, time.Now()
	push := func(body []byte) any {
		items, err := data.ParsePush(body)
		return outcome{items, err}
	}
	apitest.RequireReads(t, push, api.Push{Items: []api.PushItem{item}})
	apitest.RequireReads(t, func(body []byte) any { return push(within(`{"items":[`, body, `]}`)) }, delayed, later)
	transaction := func(body []byte) any {
		tx, unknown, err := data.ParseTransaction(body)
		return outcome{[]any{tx, unknown}, err}
	}
	operation := func(body []byte) any { return transaction(within(`{"operations":[`, body, `]}`)) }
	pushes := api.Operation{Type: api.PushOperation, Items: []api.PushItem{item}}
	apitest.RequireReads(t, transaction, api.Transaction{Operations: []api.Operation{pushes}, RequiredLeases: []string{"l"}})
	apitest.RequireReads(t, operation, api.Operation{Type: api.AckOperation, Ack: &ack}, pushes)
	apitest.RequireReads(t, func(body []byte) any { return operation(within(`{"type":"ack",`, body[1:], ``)) }, ack)
	batch := func(body []byte) any {
		acks, err := data.ParseAckBatch(body)
		return outcome{acks, err}
	}
	apitest.RequireReads(t, batch, api.AckBatch{Group: "g", Acks: []api.Ack{ack}})
	extend := func(body []byte) any {
		var by time.Duration
		f := &apitest.Fakes{Extend: func(_ queue.ID, d time.Duration) (time.Time, error) { by = d; return time.Now(), nil }}
		apitest.Call(f, http.MethodPost, "/api/v1/lease/"+apitest.IDOne.String()+"/extend", string(body))
		return by
	}
	apitest.RequireReads(t, extend, api.Extend{Seconds: 7})
}

// within returns the part of body between two texts.
func within(before string, body []byte, after string) []byte {
	return []byte(strings.Join([]string{before, string(body), after}, ""))
}
