package load

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// popped is the answer of a pop with n messages, as the server writes it.
func popped(n int) []byte {
	const partition, lease = "0199d1a0-7a3c-7d51-8f0e-2f1f9a7c1b00", "0199d1a0-7b00-7000-9000-2f1f9a7c1b01"
	b := fmt.Appendf(nil, `{"success":true,"queue":"bench-0123456789-pop","partition":"p3","partitionId":%q,"leaseId":%q,`+
		`"consumerGroup":"__QUEUE_MODE__","partitionsClaimed":1,"messages":[`, partition, lease)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		id := fmt.Sprintf("0199d1a0-7a3c-7d51-8f0e-%012x", i)
		b = fmt.Appendf(b, `{"id":%q,"transactionId":%q,"traceId":null,"data":`, id, id)
		b = AppendPayload(b, Ref{3, i}, 256)
		b = fmt.Appendf(b, `,"producerSub":null,"createdAt":"2026-05-16T08:41:27.123456Z","partitionId":%q,"partition":"p3",`+
			`"leaseId":%q,"consumerGroup":"__QUEUE_MODE__","attempt":1}`, partition, lease)
	}
	return append(b, `]}`...)
}

// read decodes an answer as (*Client).pop does.
func read(in *popBuffer, body []byte) (*Delivery, error) {
	in.body = *bytes.NewBuffer(body)
	in.delivery = Delivery{LeaseID: missing, Messages: in.delivery.Messages[:0]}
	return &in.delivery, in.decode()
}

// plainly decodes an answer with the ordinary decoder.
func plainly(body []byte) (*Delivery, error) {
	var answer struct {
		LeaseID  string `json:"leaseId"`
		Messages []struct {
			TransactionID string `json:"transactionId"`
			PartitionID   string `json:"partitionId"`
			Partition     string `json:"partition"`
			Data          struct {
				Lane int `json:"lane"`
				N    int `json:"n"`
			} `json:"data"`
		} `json:"messages"`
	}
	err := json.Unmarshal(body, &answer)
	quote := func(text string) jsontext.Value {
		quoted, _ := jsontext.AppendQuote(nil, text)
		return quoted
	}
	d := &Delivery{LeaseID: quote(answer.LeaseID)}
	for _, m := range answer.Messages {
		d.Messages = append(d.Messages, Message{quote(m.TransactionID), quote(m.PartitionID), m.Partition, Payload(m.Data)})
	}
	return d, err
}

func TestPopAnswersAreDecoded(t *testing.T) {
	t.Parallel()
	lane := func(lane, n int) Message { return Message{missing, missing, "", Payload{lane, n}} }
	in := &popBuffer{}
	for text, want := range map[string][]Message{
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
			{jsontext.Value(`"a\"b\\\u00e9"`), jsontext.Value(`"é"`), "p3", Payload{}}, {missing, missing, "p3", Payload{0, 4}},
		},
	} {
		d, err := read(in, []byte(text))
		require.NoError(t, err, text)
		require.Len(t, d.Messages, len(want), text)
		for i := range want {
			require.Equal(t, want[i], d.Messages[i], text)
		}
	}
	d, err := read(in, []byte(`{"messages":[{"transactionId":"a\"b"},{"partitionId":"p"}],"leaseId":"l"}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"consumerGroup":"g","acknowledgments":[
		{"transactionId":"a\"b","partitionId":"","leaseId":"l","status":"completed"},
		{"transactionId":"","partitionId":"p","leaseId":"l","status":"completed"}]}`, string(appendAck(nil, d, "g")))
}

func TestMalformedPopAnswersAreErrors(t *testing.T) {
	t.Parallel()
	in := &popBuffer{}
	for _, text := range []string{
		``, ` `, `[]`, `"text"`, `1`, `nul`, `nullx`, `{`, `{}}`, `{} {}`, `{,}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`,
		`{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`, `{"a":+1}`, `{"a":1x}`, `{"a":tru}`, `{"a":truex}`, `{"a":"b}`, `{"a":[1,]}`, `{"a":{"b":1,}}`,
		"{\"a\":\"tab\there\"}", "{\"a\":\"\xff\"}", `{"a":"\x"}`, `{"a":"\ud800"}`, "{\"a\":\"0123456789\x00\"}",
		`{"messages":{}}`, `{"messages":[1]}`, `{"messages":[{}`, `{"messages":[{}]`, `{"messages":[{},]}`, `{"messages":[,{}]}`, `{"messages":[{}{}]}`,
		`{"leaseId":1}`, `{"messages":[{"partition":1}]}`, `{"messages":[{"transactionId":{}}]}`, `{"messages":[{"partitionId":["p"]}]}`,
		`{"messages":[{"data":1}]}`, `{"messages":[{"data":{"n":"1"}}]}`, `{"messages":[{"data":{"n":1.5}}]}`,
		`{"messages":[{"data":{"n":99999999999999999999}}]}`, `{"messages":[{"data":{"lane":1e2}}]}`,
	} {
		_, err := read(in, []byte(text))
		require.Error(t, err, text)
	}
	_, err := read(in, []byte(`{"messages":1}`))
	require.ErrorContains(t, err, "there is no [", "the error names the expected token")
}

// The test changes every byte of an answer to other bytes, and cuts the answer at every byte.
// Both decoders must return the same messages or both an error.
func TestPopDecoderAgreesWithTheOrdinaryDecoder(t *testing.T) {
	t.Parallel()
	body := popped(2)
	in := &popBuffer{}
	agree := func(changed []byte) {
		want, wanted := plainly(changed)
		got, err := read(in, changed)
		if (err == nil) != (wanted == nil) || err == nil && !same(got, want) {
			require.Failf(t, "decoded differently", "%s\nerror %v, want %v", changed, err, wanted)
		}
	}
	agree(body)
	for i, was := range body {
		agree(body[:i])
		for _, c := range []byte("\"\\{}[],:0179-.eE ntx\n\x00\x1f\x7f\x80\xc3\xff") {
			body[i] = c
			agree(body)
		}
		body[i] = was
	}
}

// unquoted decodes a JSON string.
func unquoted(quoted jsontext.Value) []byte {
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

// same compares two deliveries, however their strings are escaped.
func same(a, b *Delivery) bool {
	equal := len(a.Messages) == len(b.Messages) && bytes.Equal(unquoted(a.LeaseID), unquoted(b.LeaseID))
	for i := 0; equal && i < len(a.Messages); i++ {
		x, y := &a.Messages[i], &b.Messages[i]
		equal = bytes.Equal(unquoted(x.TransactionID), unquoted(y.TransactionID)) && bytes.Equal(unquoted(x.PartitionID), unquoted(y.PartitionID)) &&
			x.Partition == y.Partition && x.Data == y.Data
	}
	return equal
}

func BenchmarkDecodePop(b *testing.B) {
	body, in := popped(100), &popBuffer{}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read(in, body); err != nil {
			b.Fatal(err)
		}
	}
}
