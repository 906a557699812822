package load

import (
	"bytes"
	"math/rand/v2"
	"strconv"
)

// padding is the text that fills payloads. It is random, so the database cannot compress it.
var padding = makePadding()

func makePadding() []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	text := make([]byte, 64<<10)
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	return text
}

// AppendPayload appends a payload of size bytes; more if the numbers need more. The payload
// counts lanes and messages from 1, so that 0 is no message.
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

// appendPush appends the body of a push. Names of queues and partitions need no JSON escape.
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
		b = append(b, `","payload":`...)
		b = append(AppendPayload(b, ref, t.PayloadSize), '}')
	}
	return append(b, `]}`...)
}

// appendAck appends the body of a batch of acks that completes a delivery.
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
		b = append(append(b, `{"transactionId":`...), d.Messages[i].TransactionID...)
		b = append(append(b, `,"partitionId":`...), d.Messages[i].PartitionID...)
		b = append(append(b, `,"leaseId":`...), d.LeaseID...)
		b = append(b, `,"status":"completed"}`...)
	}
	return append(b, `]}`...)
}

// hasTimes reports whether an answer has a text exactly n times. If it has the success of every
// item, the answer need not be decoded. No name of ours contains such a text.
func hasTimes(body []byte, text string, n int) bool { return bytes.Count(body, []byte(text)) == n }
