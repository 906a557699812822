package bench

import (
	"bytes"
	"math/rand/v2"
	"strconv"
)

// filler is what payloads are padded with. It is random, so that no database
// gets away with compressing it.
var filler = makeFiller()

func makeFiller() []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	text := make([]byte, 64<<10)
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	return text
}

// appendPayload appends a payload of size bytes, or of as many as the numbers
// need. Lanes and numbers are counted from 1 in it, so that 0 is no message.
func appendPayload(b []byte, lane, n, size int) []byte {
	begin := len(b)
	b = append(b, `{"lane":`...)
	b = strconv.AppendInt(b, int64(lane)+1, 10)
	b = append(b, `,"n":`...)
	b = strconv.AppendInt(b, int64(n)+1, 10)
	const frame = len(`,"pad":""}`)
	pad := size - (len(b) - begin) - frame
	if pad < 0 {
		return append(b, '}')
	}
	b = append(b, `,"pad":"`...)
	from := (lane*31 + n*7919) % len(filler)
	for pad > 0 {
		piece := filler[from:min(len(filler), from+pad)]
		b = append(b, piece...)
		pad, from = pad-len(piece), 0
	}
	return append(b, `"}`...)
}

func appendPartition(b []byte, partition int) []byte {
	return strconv.AppendInt(append(b, 'p'), int64(partition), 10)
}

// appendPush appends the body of a push. Names are made by us and need no quoting.
func appendPush(b []byte, t *trial, refs []ref) []byte {
	b = append(b, `{"items":[`...)
	for i, r := range refs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"queue":"`...), t.queue...), `","partition":"`...)
		b = appendPartition(b, r.lane%t.Partitions)
		if t.TransactionIDs {
			b = append(append(append(b, `","transactionId":"`...), t.queue...), '-')
			b = strconv.AppendInt(b, int64(r.lane), 10)
			b = strconv.AppendInt(append(b, '-'), int64(r.n), 10)
		}
		b = append(b, `","payload":`...)
		b = append(appendPayload(b, r.lane, r.n, t.Payload), '}')
	}
	return append(b, `]}`...)
}

// appendAck appends the body of a batch of acks that completes a delivery.
func appendAck(b []byte, d *delivery, group string) []byte {
	b = append(b, '{')
	if group != "" {
		b = append(append(append(b, `"consumerGroup":"`...), group...), `",`...)
	}
	b = append(b, `"acknowledgments":[`...)
	for i := range d.Messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"transactionId":`...)
		b = append(b, d.Messages[i].TransactionID...)
		b = append(b, `,"partitionId":`...)
		b = append(b, d.Messages[i].PartitionID...)
		b = append(b, `,"leaseId":`...)
		b = append(b, d.LeaseID...)
		b = append(b, `,"status":"completed"}`...)
	}
	return append(b, `]}`...)
}

// all says whether an answer has this text n times: that spares reading it in
// detail when everything went well. None of our names contains such a text.
func all(body []byte, text string, n int) bool { return bytes.Count(body, []byte(text)) == n }
