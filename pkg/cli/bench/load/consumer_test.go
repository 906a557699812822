package load

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPopAnswersAreDecoded(t *testing.T) {
	t.Parallel()
	var answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
	t.Cleanup(server.Close)
	client, err := NewClient(server.URL, nil)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	lane := func(lane, n int) Message { return Message{Data: Payload{lane, n}} }
	traffic := &Traffic{Client: client, Meter: NewMeter(), Ledger: NewLedger(LedgerConfig{}), Groups: []string{""}}
	consumer := traffic.NewConsumer(PopOptions{Queue: "q", Batch: 10})
	pop := func(text string) (*Delivery, error) {
		answer = text
		return consumer.Pop(t.Context(), false)
	}
	for text, want := range map[string][]Message{
		``:                nil,
		`null`:            nil,
		`{}`:              nil,
		`{"messages":[]}`: nil,
		`{"success":false,"error":"gone","messages":null}`: nil,
		`{"messages":[{}]}`:                                                                      {lane(0, 0)},
		`{"messages":[null,{"data":null}]}`:                                                      {lane(0, 0), lane(0, 0)},
		`{"messages":[{"data":{"n":7,"lane":null}}]}`:                                            {lane(0, 7)},
		`{"messages":[{"data":{"lane":-5,"n":0}}]}`:                                              {lane(-5, 0)},
		"{\t\"messages\" : [ {\"data\" : {\"lane\" : 1 , \"n\":\n2 } } ]\r\n}":                   {lane(1, 2)},
		`{"more":{"a":[1.5,-0,2e9,{"b":"]}"}],"c":true},"messages":[{"data":{"x":[[]],"n":3}}]}`: {lane(0, 3)},
		`{"messages":[{"partition":"\u00703","transactionId":"a\"b\\\u00e9","partitionId":"é"},{"partition":"p3","data":{"n":4}}]}`: {
			{`a"b\é`, "é", "p3", Payload{}}, {"", "", "p3", Payload{0, 4}},
		},
	} {
		d, err := pop(text)
		require.NoError(t, err, text)
		require.Len(t, d.Messages, len(want), text)
		for i := range want {
			require.Equal(t, want[i], d.Messages[i], text)
		}
	}
	d, err := pop(`{"messages":[{"transactionId":"a\"b"},{"partitionId":"p"}],"leaseId":"l"}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"consumerGroup":"g","acknowledgments":[
		{"transactionId":"a\"b","partitionId":"","leaseId":"l","status":"completed"},
		{"transactionId":"","partitionId":"p","leaseId":"l","status":"completed"}]}`, string(appendAck(nil, d, "g")))
	for _, text := range []string{
		`[]`, `nul`, `{"messages":[{}`, `{} {}`, `{"leaseId":1}`, `{"messages":{}}`, `{"messages":[{"partition":1}]}`,
		`{"messages":[{"data":1}]}`, `{"messages":[{"data":{"n":1.5}}]}`, "{\"messages\":[{\"partition\":\"\xff\"}]}",
	} {
		_, err := pop(text)
		var failure *Failure
		require.ErrorAs(t, err, &failure, text)
		require.Equal(t, "unreadable", failure.Kind)
	}
}
