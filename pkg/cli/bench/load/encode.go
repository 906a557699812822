package load

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// padding is the text that fills payloads. It is random, so the database cannot compress it well.
var padding = makePadding()

func makePadding() []byte {
	random := make([]byte, 48<<10)
	_, _ = rand.Read(random) // it never fails
	return base64.RawURLEncoding.AppendEncode(nil, random)
}

// AppendPayload appends a payload of size bytes, or more if the two numbers do not fit. Lanes and messages in the
// payload start at 1, so 0 means a missing field.
func AppendPayload(b []byte, ref Ref, size int) []byte {
	begin := len(b)
	b = append(b, `{"lane":`...)
	b = strconv.AppendInt(b, int64(ref.Lane)+1, 10)
	b = append(b, `,"n":`...)
	b = strconv.AppendInt(b, int64(ref.N)+1, 10)
	const frame = len(`,"pad":""}`)
	pad := size - (len(b) - begin) - frame
	if pad < 0 {
		return append(b, '}')
	}
	b = append(b, `,"pad":"`...)
	from := (ref.Lane*31 + ref.N*7919) % len(padding)
	for pad > 0 {
		piece := padding[from:min(len(padding), from+pad)]
		b = append(b, piece...)
		pad, from = pad-len(piece), 0
	}
	return append(b, `"}`...)
}

// appendPush appends the body of a push. The names of queues and partitions here need no JSON escape.
func (t *Traffic) appendPush(b []byte, refs []Ref) []byte {
	b = append(b, `{"items":[`...)
	for i, ref := range refs {
		if i > 0 {
			b = append(b, ',')
		}
		lane := t.Ledger.lanes[ref.Lane].Lane
		b = append(append(append(b, `{"queue":"`...), lane.Queue...), `","partition":"`...)
		b = append(b, lane.Partition...)
		if t.TransactionIDs {
			b = append(append(append(b, `","transactionId":"`...), lane.Queue...), '-')
			b = strconv.AppendInt(b, int64(ref.Lane), 10)
			b = strconv.AppendInt(append(b, '-'), int64(ref.N), 10)
		}
		b = append(appendHeaders(append(b, '"'), t.Headers), `,"payload":`...)
		b = append(AppendPayload(b, ref, t.PayloadSize), '}')
	}
	return append(b, `]}`...)
}

// appendHeaders appends n headers, each with a value of 32 bytes. It appends nothing if n is 0.
func appendHeaders(b []byte, n int) []byte {
	if n == 0 {
		return b
	}
	b = append(b, `,"headers":{`...)
	for i := range n {
		b = strconv.AppendInt(append(b, `"header-`...), int64(i), 10)
		b = append(append(append(b, `":"`...), padding[32*i:32*i+32]...), `",`...)
	}
	return append(b[:len(b)-1], '}')
}

// appendAck appends the body of a batch of acks for all messages of a delivery.
func appendAck(b []byte, d *Delivery, group string) []byte {
	b = append(b, '{')
	if group != "" {
		b = append(append(append(b, `"consumerGroup":"`...), group...), `",`...)
	}
	b = append(b, `"acknowledgments":[`...)
	for i := range d.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(append(b, `{"transactionId":`...), d.Messages[i].TransactionID)
		b = appendQuoted(append(b, `,"partitionId":`...), d.Messages[i].PartitionID)
		b = appendQuoted(append(b, `,"leaseId":`...), d.LeaseID)
		b = append(b, `,"status":"completed"}`...)
	}
	return append(b, `]}`...)
}

// appendQuoted appends a JSON string.
func appendQuoted(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // fails only for invalid UTF-8, which the decoder of the pop refuses
	return b
}

// batch is a request with several items and the answer to it. It belongs to one goroutine.
type batch struct {
	body   []byte
	answer bytes.Buffer
}

// itemResult is the answer to one item. Status belongs to a push, the other fields to an ack.
type itemResult struct {
	Status  string `json:"status"`
	Success bool   `json:"success"`
	Error   string `json:"error"`
}

// post sends a batch of n items and returns the result of each item. If the answer contains the text accepted n
// times, every item succeeded: post does not decode the answer, and the results are nil. No name in a request
// contains the text accepted. post blocks until the answer, even if ctx ends.
func (b *batch) post(ctx context.Context, c *Client, path string, n int, accepted string) ([]itemResult, Response, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RequestTimeout)
	defer cancel()
	resp, err := c.Do(ctx, http.MethodPost, c.URL(path), b.body, &b.answer)
	if err != nil || bytes.Count(b.answer.Bytes(), []byte(accepted)) == n {
		return nil, resp, err
	}
	var results []itemResult
	if err := json.Unmarshal(b.answer.Bytes(), &results); err != nil {
		return nil, resp, unreadable("decoding the answer of %s: %w", path, err)
	}
	if len(results) != n {
		return nil, resp, unreadable("decoding the answer of %s: %d items got %d results", path, n, len(results))
	}
	return results, resp, nil
}
